// SPDX-License-Identifier: Apache-2.0
#include "model/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace space::model {
namespace {

using namespace std::chrono_literals;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

SnapshotId id_of(std::uint64_t number) {
  std::string text = std::to_string(number);
  return SnapshotId(std::string(20 - text.size(), '0') + text);
}
std::vector<RetentionPoint> every(std::chrono::seconds step, std::chrono::seconds span) {
  std::vector<RetentionPoint> points;
  for (auto age = span; age >= 0s; age -= step)
    points.push_back({id_of(points.size()), kNow - age, false, false});
  return points;
}
std::vector<RetentionPoint> without(std::vector<RetentionPoint> points,
                                    const std::vector<SnapshotId>& removed) {
  std::set<SnapshotId> gone(removed.begin(), removed.end());
  std::erase_if(points, [&](const RetentionPoint& point) { return gone.contains(point.id); });
  return points;
}
std::set<SnapshotId> ids(const std::vector<RetentionPoint>& points) {
  std::set<SnapshotId> all;
  for (const auto& point : points) all.insert(point.id);
  return all;
}

TEST(Retention, KeepsEveryPointOfTheLastHour) {
  EXPECT_TRUE(thin(every(60s, 1h), default_retention(), kNow).empty());
}

TEST(Retention, KeepsOneInTenMinutesOfADayAndOneInAnHourOfAWeek) {
  auto kept = without(every(60s, 7 * 24h), thin(every(60s, 7 * 24h), default_retention(), kNow));
  auto in = [&](std::chrono::seconds from, std::chrono::seconds to) {
    return std::ranges::count_if(kept,
                                 [&](const auto& p) { return kNow - p.time > from && kNow - p.time <= to; });
  };
  EXPECT_EQ(in(-1s, 1h), 61);
  EXPECT_NEAR(static_cast<double>(in(1h, 24h)), 23 * 6, 1);
  EXPECT_NEAR(static_cast<double>(in(24h, 7 * 24h)), 6 * 24, 1);
}

TEST(Retention, NamedForkAndNewestPointsStayWhateverTheirAge) {
  std::vector<RetentionPoint> points{{id_of(1), kNow - 1000h, true, false},
                                     {id_of(2), kNow - 1001h, false, true},
                                     {id_of(3), kNow - 1002h, false, false},
                                     {id_of(4), kNow - 999h, false, false}};
  EXPECT_EQ(thin(points, default_retention(), kNow), std::vector{id_of(3)});
}

TEST(Retention, KeepAllKeepsAll) {
  RetentionPolicy policy = default_retention();
  policy.keep_all = true;
  EXPECT_TRUE(thin(every(3600s, 1000h), policy, kNow).empty());
}

TEST(Retention, APointFromTheFutureStays) {
  std::vector<RetentionPoint> points{{id_of(1), kNow + 10h, false, false},
                                     {id_of(2), kNow + 11h, false, false}};
  EXPECT_TRUE(thin(points, default_retention(), kNow).empty());
}

TEST(Retention, RefusesRulesThatDoNotNest) {
  EXPECT_TRUE(validate(default_retention()).ok());
  EXPECT_EQ(validate({false, {{1h, 0s}, {1h, 10s}}}).error().field, "retention.rules[1].window");
  EXPECT_EQ(validate({false, {{1h, 10s}, {2h, 15s}}}).error().field, "retention.rules[1].spacing");
  EXPECT_EQ(validate({false, {{1h, -1s}}}).error().field, "retention.rules[0].spacing");
}

class RetentionProperty : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::vector<RetentionPoint> random_points() {
    std::mt19937_64 random(GetParam());
    std::vector<RetentionPoint> points;
    for (std::uint64_t i = 0; i < 300; ++i) {
      auto age = std::chrono::seconds(random() % (10 * 24 * 3600));
      points.push_back({id_of(i), kNow - age, random() % 40 == 0, random() % 40 == 0});
    }
    return points;
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, RetentionProperty, ::testing::Range<std::uint64_t>(0, 20));

TEST_P(RetentionProperty, ThinningTwiceRemovesNothingMore) {
  auto kept = without(random_points(), thin(random_points(), default_retention(), kNow));
  EXPECT_TRUE(thin(kept, default_retention(), kNow).empty());
}

TEST_P(RetentionProperty, TheOrderOfThePointsDoesNotMatter) {
  auto points = random_points();
  auto kept = ids(without(points, thin(points, default_retention(), kNow)));
  std::shuffle(points.begin(), points.end(), std::mt19937_64(1));
  EXPECT_EQ(ids(without(points, thin(points, default_retention(), kNow))), kept);
}

TEST_P(RetentionProperty, ThinningOftenKeepsWhatThinningOnceKeeps) {
  auto points = random_points();
  // The newest stays at each time, so leave out what is only kept for that: compare at the end, when all have
  // aged.
  auto often = points;
  for (auto time = kNow - 240h; time <= kNow; time += 7min) {
    std::vector<RetentionPoint> seen;
    std::ranges::copy_if(often, std::back_inserter(seen), [&](const auto& p) { return p.time <= time; });
    auto removed = thin(seen, default_retention(), time);
    often = without(often, removed);
  }
  EXPECT_EQ(ids(without(often, thin(often, default_retention(), kNow))),
            ids(without(points, thin(points, default_retention(), kNow))));
}

TEST_P(RetentionProperty, NoSlotOfTheWeekThatHadAPointLosesItsLast) {
  auto points = random_points();
  auto kept = without(points, thin(points, default_retention(), kNow));
  auto hours = [](const std::vector<RetentionPoint>& all) {
    std::set<std::int64_t> slots;
    for (const auto& point : all) {
      if (kNow - point.time <= 7 * 24h)
        slots.insert(point.time.time_since_epoch() / std::chrono::microseconds(1h));
    }
    return slots;
  };
  EXPECT_EQ(hours(kept), hours(points));
}

}  // namespace
}  // namespace space::model
