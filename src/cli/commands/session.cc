// SPDX-License-Identifier: Apache-2.0
// space session: create, list, show, kill, extend.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/table.h"
#include "lib/base/size.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;

namespace {

struct CreateOptions {
  std::string name;
  std::string template_name;
  std::string memory;
  std::string disk;
  std::string ttl;
  std::vector<std::string> labels;
  std::optional<std::int64_t> vcpus;
  bool name_given = false;
  bool no_wait = false;
};

struct ListOptions {
  std::string state;
  std::string name;
  bool all = false;
};

struct OneOptions {
  std::vector<std::string> sessions;
  bool no_wait = false;
};

struct ExtendOptions {
  std::string session;
  std::string ttl;
};

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

Result<std::int64_t> seconds(const std::string& option, const std::string& text) {
  auto length = parse_duration(text);
  if (!length.ok()) return usage(option + ": " + length.error().message);
  if (length->count() % 1000 != 0) return usage(option + " must be whole seconds");
  return length->count() / 1000;
}

Result<json::object> body_of(const CreateOptions& options) {
  json::object body;
  if (options.name_given) body["name"] = options.name;
  if (!options.template_name.empty()) body["template"] = options.template_name;
  if (options.vcpus) body["vcpus"] = *options.vcpus;
  for (const auto& [option, text, field] : {std::tuple("--memory", &options.memory, "memory_bytes"),
                                            std::tuple("--disk", &options.disk, "disk_bytes")}) {
    if (text->empty()) continue;
    auto size = parse_size(*text);
    if (!size.ok()) return usage(std::string(option) + ": " + size.error().message);
    body[field] = *size;
  }
  if (!options.ttl.empty()) {
    SPACE_TRY(auto length, seconds("--ttl", options.ttl));
    body["ttl_seconds"] = length;
  }
  json::object labels;
  for (const auto& label : options.labels) {
    auto equals = label.find('=');
    if (equals == 0 || equals == std::string::npos)
      return usage("--label is KEY=VALUE, not \"" + escape(label) + "\"");
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  if (!labels.empty()) body["labels"] = std::move(labels);
  return body;
}

std::string deadline_of(const json::value& session) {
  if (member(session, "ended_at") != nullptr) return "";
  std::string at = text_of(session, "expires_at");
  return at.empty() ? "" : at + " (" + relative_time(at) + ")";
}

std::string status_of(const json::value& session) {
  const auto* status = member(session, "status");
  return status == nullptr ? "" : text_of(*status, "message") + " (" + text_of(*status, "reason") + ")";
}

std::string sandbox_of(const json::value& session) {
  const auto* sandbox = member(session, "sandbox");
  if (sandbox == nullptr) return "";
  return text_of(*sandbox, "id") + " on " + text_of(*sandbox, "node") + ", " + text_of(*sandbox, "backend") +
         " " + text_of(*sandbox, "acceleration") +
         (flag_of(*sandbox, "adopted") ? ", adopted after a restart" : "");
}

void print_session(const Context& context, const json::value& session) {
  if (context.json()) return context.print(session);
  const auto* resources = member(session, "resources");
  std::string labels;
  if (const auto* all = member(session, "labels"); all != nullptr && all->is_object()) {
    for (const auto& [key, value] : all->get_object()) {
      if (!labels.empty()) labels += ", ";
      labels += std::string(key) + "=" + (value.is_string() ? std::string(value.get_string()) : "");
    }
  }
  context.print(facts({{"id", text_of(session, "id")},
                       {"name", text_of(session, "name")},
                       {"state", text_of(session, "state")},
                       {"status", status_of(session)},
                       {"template", text_of(session, "template")},
                       {"resources", resources == nullptr ? "" : human_resources(*resources)},
                       {"deadline", deadline_of(session)},
                       {"created", text_of(session, "created_at")},
                       {"ended", text_of(session, "ended_at")},
                       {"sandbox", sandbox_of(session)},
                       {"labels", labels}}));
}

Task<int> create(Context& context, const CreateOptions& options) {
  auto body = body_of(options);
  if (!body.ok()) co_return context.fail(body.error());
  auto session = co_await context.api.change("POST", options.no_wait ? "/sessions?wait=false" : "/sessions",
                                             std::move(*body));
  if (!session.ok()) co_return context.fail(session.error());
  print_session(context, *session);
  co_return text_of(*session, "state") == "failed" ? kFailed : kOk;
}

Task<int> list(Context& context, const ListOptions& options) {
  std::vector<std::pair<std::string, std::string>> filters;
  if (!options.state.empty()) {
    filters.emplace_back("state", options.state);
  } else if (!options.all) {
    filters.emplace_back("state", "creating,running,killing,failed");
  }
  if (!options.name.empty()) filters.emplace_back("name", options.name);
  auto sessions = co_await context.api.list("/sessions" + http::client::query(filters));
  if (!sessions.ok()) co_return context.fail(sessions.error());
  if (context.json()) {
    context.print(json::value(std::move(*sessions)));
    co_return kOk;
  }
  Table table({"ID", "NAME", "STATE", "TEMPLATE", "RESOURCES", "DEADLINE"});
  for (const auto& session : *sessions) {
    const auto* resources = member(session, "resources");
    bool ended = member(session, "ended_at") != nullptr;
    table.row({text_of(session, "id"), text_of(session, "name"), text_of(session, "state"),
               text_of(session, "template"), resources == nullptr ? "" : human_resources(*resources),
               ended ? "" : relative_time(text_of(session, "expires_at"))});
  }
  context.print(table.text());
  co_return kOk;
}

Task<int> show(Context& context, const OneOptions& options) {
  auto session = co_await context.api.get(session_target(options.sessions.front()));
  if (!session.ok()) co_return context.fail(session.error());
  print_session(context, *session);
  co_return kOk;
}

Task<int> kill(Context& context, const OneOptions& options) {
  json::array killed;
  int code = kOk;
  for (const auto& name : options.sessions) {
    auto session = co_await context.api.change(
        "DELETE", session_target(name) + (options.no_wait ? "?wait=false" : ""), std::nullopt);
    if (!session.ok()) {
      code = context.fail(session.error());
      continue;
    }
    if (!context.json()) context.print(facts({{text_of(*session, "id"), text_of(*session, "state")}}));
    killed.push_back(std::move(*session));
  }
  if (context.json() && options.sessions.size() > 1)
    context.print(json::value(std::move(killed)));
  else if (context.json() && !killed.empty())
    context.print(killed.front());
  co_return code;
}

Task<int> extend(Context& context, const ExtendOptions& options) {
  auto length = seconds("the time to live", options.ttl);
  if (!length.ok()) co_return context.fail(length.error());
  auto session = co_await context.api.change("PATCH", session_target(options.session),
                                             json::object{{"ttl_seconds", *length}});
  if (!session.ok()) co_return context.fail(session.error());
  print_session(context, *session);
  co_return kOk;
}

}  // namespace

void add_session_commands(CLI::App& app, Invocation& invocation) {
  auto* group =
      app.add_subcommand("session", "Create, list, show, kill and extend sessions")->require_subcommand(1);

  auto made = std::make_shared<CreateOptions>();
  auto* create_command = group->add_subcommand("create", "Create a session and start its sandbox");
  auto* name = create_command->add_option("--name", made->name,
                                          "A name, unique among your live sessions: a-z, 0-9 and -");
  create_command->add_option("--template,-T", made->template_name, "Template to start from (default: base)");
  create_command->add_option("--vcpus", made->vcpus, "Virtual processors (default: the template's)");
  create_command->add_option("--memory", made->memory, "Memory, such as 512MiB (default: the template's)");
  create_command->add_option("--disk", made->disk, "Disk, such as 8GiB (default: the template's)");
  create_command->add_option("--ttl", made->ttl,
                             "Time to live, such as 90s, 15m, 2h (default: 1h, at most 7d)");
  create_command->add_option("--label", made->labels, "KEY=VALUE; repeatable")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  create_command->add_flag("--no-wait", made->no_wait, "Return before the sandbox runs");
  create_command->callback([made, name, &invocation] {
    made->name_given = name->count() > 0;
    invocation.remote = [made](Context& c) { return create(c, *made); };
  });

  auto listed = std::make_shared<ListOptions>();
  auto* list_command = group->add_subcommand("ls", "List sessions (ended ones with --all)");
  list_command->add_option("--state", listed->state,
                           "Only these, comma separated: creating, running, killing, killed, failed");
  list_command->add_option("--name", listed->name, "Only the one with this name");
  list_command->add_flag("--all,-a", listed->all, "Killed ones too");
  list_command->callback(
      [listed, &invocation] { invocation.remote = [listed](Context& c) { return list(c, *listed); }; });

  auto one = std::make_shared<OneOptions>();
  auto* show_command = group->add_subcommand("show", "Show one session");
  show_command->add_option("session", one->sessions, "Session id or name")->required()->expected(1);
  show_command->callback(
      [one, &invocation] { invocation.remote = [one](Context& c) { return show(c, *one); }; });

  auto* kill_command = group->add_subcommand("kill", "End sessions; whatever was only in them is lost");
  kill_command->add_option("session", one->sessions, "Session ids or names")->required();
  kill_command->add_flag("--no-wait", one->no_wait, "Return before everything is gone");
  kill_command->callback(
      [one, &invocation] { invocation.remote = [one](Context& c) { return kill(c, *one); }; });

  auto* extend_command = group->add_subcommand("extend", "Move a session's deadline, counted from now");
  auto extended = std::make_shared<ExtendOptions>();
  extend_command->add_option("session", extended->session, "Session id or name")->required();
  extend_command->add_option("ttl", extended->ttl, "New time to live from now, such as 2h")->required();
  extend_command->callback([extended, &invocation] {
    invocation.remote = [extended](Context& c) { return extend(c, *extended); };
  });
}

}  // namespace space::cli
