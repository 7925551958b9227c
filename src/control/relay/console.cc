// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/relay/file_transfer.h"
#include "lib/async/deadline.h"

namespace space::control::relay {
namespace {

http::Response text_head() {
  http::Response response;
  response.headers.set("Content-Type", "text/plain; charset=binary");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Cache-Control", "no-store");
  return response;
}

async::Task<Result<rpc::CallEvent>> next_of(rpc::Call* call) {
  return call->next();
}

// True: the console's end was reached.
async::Task<bool> pump(http::Exchange* exchange, rpc::Call* call, std::optional<rpc::CallEvent> event) {
  for (;;) {
    if (!event) {
      auto next = co_await call->next();
      if (!next.ok()) co_return false;
      event = std::move(*next);
    }
    if (auto* end = std::get_if<rpc::End>(&*event)) co_return end->status.ok();
    if (auto* data = std::get_if<rpc::Data>(&*event)) {
      if (!(co_await exchange->write(data->bytes)).ok()) co_return false;
    }
    event.reset();
  }
}

async::Task<void> kept_tail(api::Call& call, SandboxId sandbox) {
  auto tail = call.services.tails.read(sandbox);
  if (!tail.ok()) co_return co_await api::reply_error(call, tail.error());
  auto response = text_head();
  response.body = std::move(*tail);
  (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
}

}  // namespace

async::Task<void> console(api::Call& call, meta::SessionRow session, bool follow) {
  if (!model::is_live(session.state)) co_return co_await kept_tail(call, session.sandbox);
  auto started = co_await call.services.link.console(session.sandbox, follow);
  if (!started.ok()) co_return co_await api::reply_error(call, started.error());
  rpc::Call source = std::move(*started);

  // An error comes at once; a console that says nothing for a moment is simply quiet.
  std::optional<rpc::CallEvent> first;
  auto early = co_await async::with_deadline(next_of(&source), std::chrono::milliseconds(300), "rpc.deadline",
                                             "the console is quiet");
  if (early.ok()) {
    first = std::move(*early);
    if (auto* end = std::get_if<rpc::End>(&*first); end != nullptr && !end->status.ok()) {
      if (end->status.error().reason == "link.no_such_sandbox" &&
          session.state != model::SessionState::kRunning) {
        co_return co_await kept_tail(call, session.sandbox);
      }
      Error error = end->status.error();
      if (error.reason == "link.no_such_sandbox") error.code = Code::kUnavailable;
      co_return co_await api::reply_error(call, std::move(error));
    }
  } else if (early.error().reason != "rpc.deadline") {
    co_return co_await api::reply_error(call, early.error());
  }
  if (!(co_await call.exchange.begin(text_head(), std::nullopt)).ok()) co_return;
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (pump(&call.exchange, &source, std::move(first)) || call.exchange.client_gone());
  if (outcome.index() == 0 && std::get<0>(outcome))
    (co_await call.exchange.finish()).ignore("the client has gone");
}

}  // namespace space::control::relay
