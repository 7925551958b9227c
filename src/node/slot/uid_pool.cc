// SPDX-License-Identifier: Apache-2.0
#include "node/slot/uid_pool.h"

#include <string>

namespace space::node::slot {

Result<uid_t> UidPool::take() {
  for (uid_t tries = 0; tries <= last_ - first_; ++tries) {
    uid_t uid = next_;
    next_ = next_ == last_ ? first_ : next_ + 1;
    if (taken_.insert(uid).second) return uid;
  }
  return make_error(Code::kResourceExhausted, "node.no_uid",
                    "every user of the node's range belongs to a sandbox");
}

Result<void> UidPool::take_this(uid_t uid) {
  if (uid < first_ || uid > last_) {
    return make_error(
        Code::kFailedPrecondition, "node.uid_out_of_range",
        "user " + std::to_string(uid) + " is outside of the node's range; was --uid-base changed?");
  }
  if (!taken_.insert(uid).second) {
    return make_error(Code::kFailedPrecondition, "node.uid_taken",
                      "user " + std::to_string(uid) + " belongs to two sandboxes");
  }
  return {};
}

}  // namespace space::node::slot
