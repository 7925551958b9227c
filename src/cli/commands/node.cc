// SPDX-License-Identifier: Apache-2.0
// space node, space operation, space version.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/table.h"
#include "lib/os/file.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;

namespace {

struct OperationOptions {
  std::string session;
  std::string id;
};

Task<int> list_nodes(Context& context) {
  auto node = co_await context.api.get("/node");
  if (!node.ok()) co_return context.fail(node.error());
  if (context.json()) {
    context.print(json::value(json::array{*node}));
    co_return kOk;
  }
  Table table({"ID", "STATE", "BACKEND", "CPUS", "MEMORY", "COMMITTED", "DISK FREE", "SANDBOXES", "VERSION"});
  table.row({text_of(*node, "id"), flag_of(*node, "connected") ? "connected" : "not connected",
             text_of(*node, "backend") + " " + text_of(*node, "acceleration"),
             std::to_string(number_of(*node, "cpus")),
             human_size(static_cast<std::uint64_t>(number_of(*node, "memory_bytes"))),
             human_size(static_cast<std::uint64_t>(number_of(*node, "memory_committed_bytes"))),
             human_size(static_cast<std::uint64_t>(number_of(*node, "disk_free_bytes"))),
             std::to_string(number_of(*node, "sandboxes")), text_of(*node, "version")});
  context.print(table.text());
  co_return kOk;
}

std::string error_text(const json::value& operation) {
  const auto* error = member(operation, "error");
  return error == nullptr ? "" : text_of(*error, "message") + " (" + text_of(*error, "reason") + ")";
}

Task<int> list_operations(Context& context, const OperationOptions& options) {
  std::string target = "/operations";
  if (!options.session.empty()) target += http::client::query({{"session", options.session}});
  auto operations = co_await context.api.list(target);
  if (!operations.ok()) co_return context.fail(operations.error());
  if (context.json()) {
    context.print(json::value(std::move(*operations)));
    co_return kOk;
  }
  Table table({"ID", "KIND", "SESSION", "STATE", "CREATED", "ERROR"});
  for (const auto& operation : *operations) {
    table.row({text_of(operation, "id"), text_of(operation, "kind"), text_of(operation, "session"),
               text_of(operation, "state"), relative_time(text_of(operation, "created_at")),
               error_text(operation)});
  }
  context.print(table.text());
  co_return kOk;
}

Task<int> show_operation(Context& context, const OperationOptions& options) {
  auto operation = co_await context.api.get("/operations/" + http::client::percent_encode(options.id));
  if (!operation.ok()) co_return context.fail(operation.error());
  if (context.json()) {
    context.print(*operation);
    co_return kOk;
  }
  context.print(facts({{"id", text_of(*operation, "id")},
                       {"kind", text_of(*operation, "kind")},
                       {"session", text_of(*operation, "session")},
                       {"state", text_of(*operation, "state")},
                       {"error", error_text(*operation)},
                       {"created", text_of(*operation, "created_at")},
                       {"deadline", text_of(*operation, "deadline_at")},
                       {"ended", text_of(*operation, "ended_at")}}));
  const auto* steps = member(*operation, "steps");
  if (steps != nullptr && steps->is_array() && !steps->get_array().empty()) {
    Table table({"AT", "STEP", "DETAIL"});
    for (const auto& step : steps->get_array())
      table.row({text_of(step, "at"), text_of(step, "step"), text_of(step, "detail")});
    context.print(table.text());
  }
  co_return kOk;
}

int print_version(const World& world, Format format) {
  std::string text = "space " SPACE_VERSION "\n";
  if (format == Format::kJson)
    text = json::serialize(json::object{{"id", "space"}, {"version", SPACE_VERSION}}) + "\n";
  os::write_all(world.stdio.out, as_bytes(text)).ignore("nobody is there to read it");
  return kOk;
}

}  // namespace

void add_node_commands(CLI::App& app, Invocation& invocation) {
  auto* node = app.add_subcommand("node", "Machines that run sandboxes")->require_subcommand(1);
  node->add_subcommand("ls", "List the nodes")->callback([&invocation] {
    invocation.remote = [](Context& c) { return list_nodes(c); };
  });

  auto options = std::make_shared<OperationOptions>();
  auto* operation = app.add_subcommand("operation", "What was asked of the platform, and how far it is")
                        ->require_subcommand(1);
  auto* list = operation->add_subcommand("ls", "List operations, newest first");
  list->add_option("--session", options->session, "Only those of this session");
  list->callback([options, &invocation] {
    invocation.remote = [options](Context& c) { return list_operations(c, *options); };
  });
  auto* show = operation->add_subcommand("show", "Show one operation with its steps");
  show->add_option("operation", options->id, "Operation id")->required();
  show->callback([options, &invocation] {
    invocation.remote = [options](Context& c) { return show_operation(c, *options); };
  });

  app.add_subcommand("version", "Print the version of this program")->callback([&invocation] {
    invocation.local = print_version;
  });
}

}  // namespace space::cli
