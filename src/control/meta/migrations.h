// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schema as numbered steps. A step that has been released is never edited; a change is a new step.

#include "control/meta/database.h"

namespace space::control::meta {

// The number of the newest step, which PRAGMA user_version holds.
int newest_schema();

// Brings the database to the newest schema, each step in a transaction of its own.
// Errors: meta.newer_schema for a database written by a later program; those of Database.
Result<void> migrate(Database& database);

}  // namespace space::control::meta
