// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of the API that reach into a running sandbox: commands, files, ports, metrics, console.

#include "control/api/handler.h"

namespace space::control::api {

async::Task<void> exec(Call& call);    // WebSocket
async::Task<void> attach(Call& call);  // WebSocket
async::Task<void> start_command(Call& call);
async::Task<void> list_commands(Call& call);
async::Task<void> get_command(Call& call);
async::Task<void> signal_command(Call& call);

async::Task<void> read_file(Call& call);  // GET and HEAD
async::Task<void> write_file(Call& call);
async::Task<void> remove_file(Call& call);
async::Task<void> stat_file(Call& call);
async::Task<void> list_files(Call& call);
async::Task<void> move_file(Call& call);
async::Task<void> make_directory(Call& call);
async::Task<void> watch_files(Call& call);  // WebSocket

async::Task<void> connect_port(Call& call);  // WebSocket
async::Task<void> get_metrics(Call& call);
async::Task<void> get_logs(Call& call);

}  // namespace space::control::api
