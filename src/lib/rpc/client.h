// SPDX-License-Identifier: Apache-2.0
#pragma once
// The asking side of a service that may restart: connects when first needed and again after a loss. A call
// that was under way when the connection broke fails; the caller decides whether to ask again. Resource type,
// one loop.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/base/result.h"
#include "lib/rpc/connection.h"

namespace space::rpc {

class Client {
 public:
  using Connect = std::function<Result<os::Fd>()>;
  // `name` appears in errors ("node"). `connect` gives a connected non-blocking socket; it is retried while
  // it fails with a retryable or not_found error, for at most `patience` per call.
  Client(const async::Executor& executor, os::Random& random, std::string name, Connect connect,
         std::chrono::milliseconds patience = std::chrono::seconds(5));
  // Connects to a Unix socket by path.
  static Connect to_path(std::string path);

  // Errors: rpc.unreachable (retryable), and those of Connection.
  async::Task<Result<Call>> start(Bytes request, std::vector<os::Fd> fds = {});
  async::Task<Result<Bytes>> unary(Bytes request, std::chrono::milliseconds limit,
                                   std::vector<os::Fd> fds = {});
  async::Task<void> stop();

 private:
  async::Task<Result<Connection*>> connection();

  async::Executor executor_;
  os::Random& random_;
  std::string name_;
  Connect connect_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Connection> connection_;
  bool connecting_ = false;
  async::Event changed_;
};

}  // namespace space::rpc
