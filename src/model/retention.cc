// SPDX-License-Identifier: Apache-2.0
#include "model/retention.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace space::model {
namespace {

Error bad(const std::string& field, const std::string& why) {
  return field_error(field, "model.bad_retention", why);
}

// The slot of `time`, counted from the epoch; rounds down before it, too.
std::int64_t slot_of(WallTime time, std::chrono::seconds spacing) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch() / spacing -
         (time < WallTime{} && std::chrono::floor<std::chrono::seconds>(time).time_since_epoch() % spacing !=
                                   std::chrono::seconds(0)
              ? 1
              : 0);
}

// Points in one slot are ordered by time, then by id, so that the answer doesn't depend on the order given.
auto order(const RetentionPoint& point) {
  return std::tie(point.time, point.id);
}

}  // namespace

RetentionPolicy default_retention() {
  using namespace std::chrono_literals;
  return {false, {{1h, 0s}, {24h, 10min}, {7 * 24h, 1h}}};
}

Result<void> validate(const RetentionPolicy& policy) {
  RetentionRule before{};
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    const RetentionRule& rule = policy.rules[i];
    std::string field = "retention.rules[" + std::to_string(i) + "]";
    if (rule.window <= before.window) return bad(field + ".window", "windows must be positive and grow");
    if (rule.spacing < std::chrono::seconds(0)) return bad(field + ".spacing", "spacings cannot be negative");
    if (i > 0 && rule.spacing <= before.spacing) return bad(field + ".spacing", "spacings must grow");
    if (before.spacing > std::chrono::seconds(0) &&
        rule.spacing % before.spacing != std::chrono::seconds(0)) {
      return bad(field + ".spacing", "a spacing must be a multiple of the one before");
    }
    before = rule;
  }
  return {};
}

std::vector<SnapshotId> thin(const std::vector<RetentionPoint>& points, const RetentionPolicy& policy,
                             WallTime now) {
  std::vector<SnapshotId> removed;
  if (policy.keep_all || points.empty()) return removed;
  const RetentionPoint& newest = *std::ranges::max_element(points, {}, order);
  // The newest point of each slot, for each rule, whichever rule that point itself falls under.
  std::vector<std::map<std::int64_t, const RetentionPoint*>> keepers(policy.rules.size());
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    if (policy.rules[i].spacing == std::chrono::seconds(0)) continue;
    for (const RetentionPoint& point : points) {
      const RetentionPoint*& keeper = keepers[i][slot_of(point.time, policy.rules[i].spacing)];
      if (keeper == nullptr || order(*keeper) < order(point)) keeper = &point;
    }
  }
  for (const RetentionPoint& point : points) {
    if (point.named || point.fork_point || point.id == newest.id) continue;
    auto rule = std::ranges::find_if(
        policy.rules, [&](const RetentionRule& one) { return now - point.time <= one.window; });
    if (rule != policy.rules.end()) {
      if (rule->spacing == std::chrono::seconds(0)) continue;
      auto& slots = keepers[static_cast<std::size_t>(rule - policy.rules.begin())];
      if (slots[slot_of(point.time, rule->spacing)] == &point) continue;
    }
    removed.push_back(point.id);
  }
  return removed;
}

}  // namespace space::model
