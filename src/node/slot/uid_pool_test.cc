// SPDX-License-Identifier: Apache-2.0
#include "node/slot/uid_pool.h"

#include <gtest/gtest.h>

namespace space::node::slot {
namespace {

constexpr uid_t kBase = 700'000;

TEST(UidPool, NeverGivesOneUserTwice) {
  UidPool pool(kBase);
  EXPECT_EQ(*pool.take(), kBase + kFirstSandboxUid);
  EXPECT_EQ(*pool.take(), kBase + kFirstSandboxUid + 1);
}

TEST(UidPool, ReusesTheLongestUnusedUserLast) {
  UidPool pool(kBase);
  uid_t first = *pool.take();
  pool.give_back(first);
  EXPECT_NE(*pool.take(), first);
}

TEST(UidPool, SkipsAdoptedUsers) {
  UidPool pool(kBase);
  ASSERT_TRUE(pool.take_this(kBase + kFirstSandboxUid).ok());
  EXPECT_EQ(*pool.take(), kBase + kFirstSandboxUid + 1);
}

TEST(UidPool, RefusesUsersOfOthersAndDuplicates) {
  UidPool pool(kBase);
  EXPECT_EQ(pool.take_this(kBase + 1).error().reason, "node.uid_out_of_range");
  EXPECT_EQ(pool.take_this(0).error().reason, "node.uid_out_of_range");
  ASSERT_TRUE(pool.take_this(kBase + kLastSandboxUid).ok());
  EXPECT_EQ(pool.take_this(kBase + kLastSandboxUid).error().reason, "node.uid_taken");
}

TEST(UidPool, SaysWhenTheRangeIsUsedUp) {
  UidPool pool(kBase);
  Result<uid_t> last = pool.take();
  for (uid_t i = kFirstSandboxUid; i < kLastSandboxUid; ++i) last = pool.take();
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(pool.take().error().reason, "node.no_uid");
}

}  // namespace
}  // namespace space::node::slot
