// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HTTP status of an error: what api/errors.yaml says for its reason and code, else what its code stands
// for. Pure.

#include "lib/base/error.h"

namespace space::control::api {

unsigned http_status(const Error& error);

}  // namespace space::control::api
