// SPDX-License-Identifier: Apache-2.0
#include "link/link.h"

namespace space::link {
namespace {
// The node agent and the control plane each use one connection; the rest is for restarts that overlap and for
// tools.
constexpr std::size_t kMaxConnections = 16;
}  // namespace

Link::Link(const async::Executor& executor, os::Random& random, const obs::Log& log, os::Fd node_listener,
           os::Fd control_listener)
    : sandboxes_(executor, random, hub_, log),
      node_door_(executor, sandboxes_, hub_, log),
      control_door_(sandboxes_, log),
      node_server_(
          executor, std::move(node_listener),
          [this](rpc::Call call) { return node_door_.answer(std::move(call)); }, kMaxConnections),
      control_server_(
          executor, std::move(control_listener),
          [this](rpc::Call call) { return control_door_.answer(std::move(call)); }, kMaxConnections) {}

void Link::start() {
  node_server_.start();
  control_server_.start();
}

async::Task<void> Link::stop() {
  co_await control_server_.stop();
  co_await node_server_.stop();
  co_await sandboxes_.stop();
}

}  // namespace space::link
