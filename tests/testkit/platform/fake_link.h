// SPDX-License-Identifier: Apache-2.0
#pragma once
// A scripted link behind the real protocol (api/link.fbs, control's socket), with a scripted guest behind
// each sandbox (fake_guest.h). Resource type; one loop.

#include <memory>
#include <string>

#include "lib/async/task.h"
#include "lib/rpc/server.h"
#include "tests/testkit/platform/fake_sandbox.h"

namespace space::testkit {

class FakeLink {
 public:
  FakeLink(const async::Executor& executor, std::string socket_path, FakeSandboxes& sandboxes);
  void start();
  async::Task<void> stop();

  bool silent =
      false;  // guests don't answer: link.guest_not_answering after the deadline asked for, at most 200 ms
  bool knows_nobody = false;  // as just after a restart: link.no_such_sandbox

 private:
  async::Task<void> answer(rpc::Call call);
  async::Executor executor_;
  std::string path_;
  FakeSandboxes& sandboxes_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace space::testkit
