// SPDX-License-Identifier: Apache-2.0
// space template: what sessions start from.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/table.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;

namespace {

constexpr std::chrono::milliseconds kPoll{500};

struct TemplateOptions {
  std::string name;
  bool no_wait = false;
};

std::string template_target(const std::string& name) {
  return "/templates/" + http::client::percent_encode(name);
}

std::string size_of(const json::value& object, std::string_view name) {
  auto bytes = number_of(object, name);
  return bytes > 0 ? human_size(static_cast<std::uint64_t>(bytes)) : "";
}

void print_template(const Context& context, const json::value& value) {
  if (context.json()) return context.print(value);
  const auto* defaults = member(value, "defaults");
  const auto* status = member(value, "status");
  std::string why = status == nullptr     ? ""
                    : status->is_string() ? std::string(status->get_string())
                                          : text_of(*status, "message");
  context.print(facts({{"name", text_of(value, "name")},
                       {"state", text_of(value, "state")},
                       {"status", why},
                       {"description", text_of(value, "description")},
                       {"defaults", defaults == nullptr ? "" : human_resources(*defaults)},
                       {"disk", size_of(value, "disk_bytes")},
                       {"stored", size_of(value, "stored_bytes")},
                       {"built", text_of(value, "built_at")},
                       {"digest", text_of(value, "digest")}}));
}

Task<int> list(Context& context, const TemplateOptions&) {
  auto templates = co_await context.api.list("/templates");
  if (!templates.ok()) co_return context.fail(templates.error());
  if (context.json()) {
    context.print(json::value(std::move(*templates)));
    co_return kOk;
  }
  Table table({"NAME", "STATE", "DISK", "STORED", "BUILT", "DESCRIPTION"});
  for (const auto& value : *templates) {
    table.row({text_of(value, "name"), text_of(value, "state"), size_of(value, "disk_bytes"),
               size_of(value, "stored_bytes"), relative_time(text_of(value, "built_at")),
               text_of(value, "description")});
  }
  context.print(table.text());
  co_return kOk;
}

Task<int> show(Context& context, const TemplateOptions& options) {
  auto value = co_await context.api.get(template_target(options.name));
  if (!value.ok()) co_return context.fail(value.error());
  print_template(context, *value);
  co_return kOk;
}

// Prints the steps of an operation as they appear, until it has ended.
Task<Result<json::value>> follow(Context& context, std::string operation) {
  std::size_t shown = 0;
  for (;;) {
    SPACE_CO_TRY(json::value value,
                 co_await context.api.get("/operations/" + http::client::percent_encode(operation)));
    const auto* steps = member(value, "steps");
    if (steps != nullptr && steps->is_array()) {
      for (; shown < steps->get_array().size(); ++shown) {
        const auto& step = steps->get_array()[shown];
        std::string detail = text_of(step, "detail");
        context.note(text_of(step, "step") + (detail.empty() ? "" : ": " + detail));
      }
    }
    std::string state = text_of(value, "state");
    if (state == "succeeded") co_return std::move(value);
    if (state == "failed") {
      const auto* error = member(value, "error");
      co_return Api::error_from(error == nullptr ? json::value() : *error);
    }
    co_await async::sleep_for(kPoll);
  }
}

Task<int> build(Context& context, const TemplateOptions& options) {
  auto operation =
      co_await context.api.change("POST", "/templates?wait=false", json::object{{"name", options.name}});
  if (!operation.ok()) co_return context.fail(operation.error());
  if (options.no_wait) {
    if (context.json())
      context.print(*operation);
    else
      context.print(
          facts({{"operation", text_of(*operation, "id")}, {"state", text_of(*operation, "state")}}));
    co_return kOk;
  }
  auto ended = co_await follow(context, text_of(*operation, "id"));
  if (!ended.ok()) co_return context.fail(ended.error());
  co_return co_await show(context, options);
}

Task<int> remove(Context& context, const TemplateOptions& options) {
  auto removed = co_await context.api.change("DELETE", template_target(options.name), std::nullopt);
  if (!removed.ok()) co_return context.fail(removed.error());
  if (context.json()) context.print(json::value(json::object{{"id", options.name}}));
  co_return kOk;
}

}  // namespace

void add_template_commands(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TemplateOptions>();
  auto* group = app.add_subcommand("template", "What sessions start from")->require_subcommand(1);
  group->add_subcommand("ls", "List templates and recipes that could be built")
      ->callback([options, &invocation] {
        invocation.remote = [options](Context& c) { return list(c, *options); };
      });
  auto add = [&](const char* name, const char* help, Task<int> (*action)(Context&, const TemplateOptions&)) {
    auto* sub = group->add_subcommand(name, help);
    sub->add_option("name", options->name, "Template name")->required();
    sub->callback([options, action, &invocation] {
      invocation.remote = [options, action](Context& c) { return action(c, *options); };
    });
    return sub;
  };
  add("show", "Show one template", show);
  add("build", "Build a template from its recipe", build)
      ->add_flag("--no-wait", options->no_wait, "Return at once; see space operation show");
  add("rm", "Remove a built template", remove);
}

}  // namespace space::cli
