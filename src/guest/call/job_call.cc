// SPDX-License-Identifier: Apache-2.0
#include "guest/call/job_call.h"

#include "lib/base/check.h"

namespace space::guest {

void JobCall::run(std::function<void()> work, std::function<void()> done) {
  SPACE_CHECK(!busy_);
  busy_ = true;
  auto self = shared_from_this();  // the stream may go while a thread works for it
  services_.pool.submit(std::move(work), [this, self, done = std::move(done)] {
    busy_ = false;
    if (gone()) return clean_up();
    done();
  });
}

void JobCall::on_detached() {
  stop_ = true;
  if (!busy_) clean_up();
}

void JobCall::clean_up() {
  if (auto work = abandon()) services_.pool.submit(std::move(work), [] {});
}

}  // namespace space::guest
