// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sessions, operations, templates, node and health: the parts of the API that never reach into a guest.

#include "control/api/handler.h"

namespace space::control::api {

async::Task<void> create_session(Call& call);
async::Task<void> list_sessions(Call& call);
async::Task<void> get_session(Call& call);
async::Task<void> kill_session(Call& call);
async::Task<void> change_session(Call& call);

async::Task<void> list_operations(Call& call);
async::Task<void> get_operation(Call& call);

async::Task<void> list_templates(Call& call);
async::Task<void> get_template(Call& call);
async::Task<void> build_template(Call& call);
async::Task<void> remove_template(Call& call);

async::Task<void> get_node(Call& call);
async::Task<void> get_health(Call& call);   // without a key
async::Task<void> get_openapi(Call& call);  // without a key

}  // namespace space::control::api
