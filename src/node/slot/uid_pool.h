// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which users of the node's range belong to a sandbox. A user is never shared by two, and is given back only
// when nothing of its sandbox is left. Resource type; one loop.

#include <sys/types.h>

#include <set>

#include "lib/base/result.h"

namespace space::node::slot {

// Of the range that starts at --uid-base: +1 and +2 are control and link.
inline constexpr uid_t kFirstSandboxUid = 16;
inline constexpr uid_t kLastSandboxUid = 16383;

class UidPool {
 public:
  explicit UidPool(uid_t base)
      : first_(base + kFirstSandboxUid), last_(base + kLastSandboxUid), next_(first_) {}

  // The free user that was longest unused. Errors: resource_exhausted node.no_uid.
  Result<uid_t> take();
  // A user that a record of an earlier process names. Errors: node.uid_taken; node.uid_out_of_range.
  Result<void> take_this(uid_t uid);
  void give_back(uid_t uid) { taken_.erase(uid); }

 private:
  uid_t first_;
  uid_t last_;
  uid_t next_;
  std::set<uid_t> taken_;
};

}  // namespace space::node::slot
