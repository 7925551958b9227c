// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/connection.h"

#include "lib/async/deadline.h"
#include "lib/base/check.h"
#include "lib/rpc/internal/core.h"

namespace space::rpc {
namespace {

async::Task<Result<Bytes>> unary_call(Call call) {
  co_return co_await finish_unary(call);
}

}  // namespace

Connection::Connection(std::shared_ptr<internal::Core> core) : core_(std::move(core)) {}

std::unique_ptr<Connection> Connection::ask(const async::Executor& executor, os::Fd socket,
                                            os::Random& random, std::uint64_t generation,
                                            wire::MuxLimits limits) {
  auto core = std::make_shared<internal::Core>(executor, std::move(socket), wire::Role::kInitiator,
                                               CallHandler(), limits);
  wire::Nonce nonce;
  random.fill(nonce);
  core->mux.attach(nonce, generation);
  core->start();
  return std::unique_ptr<Connection>(new Connection(std::move(core)));
}

std::unique_ptr<Connection> Connection::answer(const async::Executor& executor, os::Fd socket,
                                               CallHandler handler, wire::MuxLimits limits) {
  SPACE_CHECK(handler);
  auto core = std::make_shared<internal::Core>(executor, std::move(socket), wire::Role::kAcceptor,
                                               std::move(handler), limits);
  core->start();
  return std::unique_ptr<Connection>(new Connection(std::move(core)));
}

Connection::~Connection() {
  core_->close(make_error(Code::kUnavailable, "rpc.connection_lost", "this side closed the connection"));
}

async::Task<Result<void>> Connection::wait_attached(std::chrono::milliseconds limit) {
  auto core = core_;
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (!core->mux.attached()) {
    if (core->dead) co_return *core->dead;
    if (!co_await core->changed.wait_until(deadline) && !core->mux.attached() && !core->dead) {
      co_return make_error(Code::kDeadlineExceeded, "rpc.not_attached",
                           "the peer did not answer the attachment in time");
    }
  }
  co_return Result<void>();
}

bool Connection::attached() const {
  return !core_->dead && core_->mux.attached();
}

Result<Call> Connection::start(Bytes request, std::vector<os::Fd> fds) {
  if (core_->dead) return *core_->dead;
  if (fds.empty()) {
    SPACE_TRY(wire::StreamId id, core_->mux.open(request));
    auto stream = std::make_shared<internal::Stream>(core_->executor, id);
    core_->streams.emplace(id, stream);
    core_->flush();
    return Call(core_, std::move(stream));
  }
  // The descriptors travel with the first byte of the OPEN frame.
  core_->queue_fds(std::move(fds));
  auto opened = core_->mux.open(request);
  if (!opened.ok()) {
    core_->outgoing_fds.pop_back();
    return std::move(opened).error();
  }
  auto stream = std::make_shared<internal::Stream>(core_->executor, *opened);
  core_->streams.emplace(*opened, stream);
  core_->flush();
  return Call(core_, std::move(stream));
}

async::Task<Result<Bytes>> Connection::unary(Bytes request, std::chrono::milliseconds limit,
                                             std::vector<os::Fd> fds) {
  SPACE_CO_TRY(Call call, start(std::move(request), std::move(fds)));
  co_return co_await async::with_deadline(unary_call(std::move(call)), limit, "rpc.deadline",
                                          "no answer within the time allowed");
}

std::size_t Connection::unsent() const {
  return core_->mux.pending_output().size();
}
bool Connection::alive() const {
  return !core_->dead.has_value();
}
const Error& Connection::why() const {
  return *core_->dead;
}

async::Task<void> Connection::closed() {
  auto core = core_;
  while (!core->dead) co_await core->changed.wait();
}

async::Task<void> Connection::stop() {
  auto core = core_;
  core->close(make_error(Code::kUnavailable, "rpc.connection_lost", "this side closed the connection"));
  co_await core->scope.stop();
}

}  // namespace space::rpc
