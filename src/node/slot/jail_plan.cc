// SPDX-License-Identifier: Apache-2.0
#include "node/slot/jail_plan.h"

#include <boost/json.hpp>

namespace space::node::slot {
namespace json = boost::json;
namespace {

json::array strings(const std::vector<std::string>& values) {
  json::array array;
  for (const auto& value : values) array.emplace_back(value);
  return array;
}

std::vector<std::string> strings(const json::value& value) {
  std::vector<std::string> out;
  for (const auto& item : value.as_array()) out.emplace_back(item.as_string());
  return out;
}

std::string text_of(const json::value& value) {
  return std::string(value.as_string());
}

// Throws what Boost.JSON throws for another shape.
JailPlan plan_of(const json::object& object) {
  JailPlan plan;
  plan.root_kind = static_cast<RootKind>(object.at("root_kind").to_number<std::uint8_t>());
  plan.root = text_of(object.at("root"));
  plan.scratch = text_of(object.at("scratch"));
  for (const auto& item : object.at("binds").as_array()) {
    const auto& bind = item.as_object();
    plan.binds.push_back(
        {text_of(bind.at("source")), text_of(bind.at("target")),
         bind.at("writable").as_bool() ? Bind::Access::kReadWrite : Bind::Access::kReadOnly});
  }
  plan.devices = strings(object.at("devices"));
  plan.uid = object.at("uid").to_number<uid_t>();
  plan.gid = object.at("gid").to_number<gid_t>();
  plan.hostname = text_of(object.at("hostname"));
  for (const auto& item : object.at("limits").as_array()) {
    const auto& limit = item.as_object();
    plan.limits.push_back(
        {limit.at("resource").to_number<int>(), limit.at("value").to_number<std::uint64_t>()});
  }
  plan.syscalls = static_cast<SyscallProfile>(object.at("syscalls").to_number<std::uint8_t>());
  plan.argv = strings(object.at("argv"));
  plan.environment = strings(object.at("environment"));
  return plan;
}

}  // namespace

std::string to_json(const JailPlan& plan) {
  json::array binds;
  for (const auto& bind : plan.binds) {
    binds.push_back({{"source", bind.source},
                     {"target", bind.target},
                     {"writable", bind.access == Bind::Access::kReadWrite}});
  }
  json::array limits;
  for (const auto& limit : plan.limits)
    limits.push_back({{"resource", limit.resource}, {"value", limit.value}});
  return json::serialize(json::object{
      {"root_kind", static_cast<std::uint8_t>(plan.root_kind)},
      {"root", plan.root},
      {"scratch", plan.scratch},
      {"binds", std::move(binds)},
      {"devices", strings(plan.devices)},
      {"uid", plan.uid},
      {"gid", plan.gid},
      {"hostname", plan.hostname},
      {"limits", std::move(limits)},
      {"syscalls", static_cast<std::uint8_t>(plan.syscalls)},
      {"argv", strings(plan.argv)},
      {"environment", strings(plan.environment)},
  });
}

Result<JailPlan> parse_jail_plan(std::string_view text) {
  try {
    JailPlan plan = plan_of(json::parse({text.data(), text.size()}).as_object());
    if (plan.argv.empty()) return make_error(Code::kInternal, "node.jail_plan", "the plan names no program");
    if (plan.uid == 0 && plan.root_kind != RootKind::kDisposable) {
      return make_error(Code::kInternal, "node.jail_plan", "a VMM never runs as root");
    }
    return plan;
  } catch (const std::exception& failure) {
    return make_error(Code::kInternal, "node.jail_plan", std::string("malformed plan: ") + failure.what());
  }
}

}  // namespace space::node::slot
