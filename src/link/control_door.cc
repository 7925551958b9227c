// SPDX-License-Identifier: Apache-2.0
#include "link/control_door.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "lib/wire/message.h"
#include "link/relay.h"

namespace space::link {
namespace {

constexpr std::size_t kConsoleChunkBytes = 32 * 1024;
constexpr auto kMaxAnswerLimit = std::chrono::milliseconds(std::chrono::hours(1));

ByteView bytes_of(const flatbuffers::Vector<std::uint8_t>& vector) {
  return {reinterpret_cast<const std::byte*>(vector.data()), vector.size()};  // SAFETY: bytes alias
}

// Sends what the console holds, and with `follow` what comes, from oldest to newest.
async::Task<Result<void>> send_console(rpc::Call& call, Console& console, bool follow) {
  std::uint64_t offset = 0;
  const std::uint64_t stop_at = console.ring().end();
  while (follow || offset < stop_at) {
    Bytes chunk = console.ring().read(offset, kConsoleChunkBytes);
    if (!chunk.empty()) {
      SPACE_CO_CHECK_OK(co_await call.send_data(1, chunk));
    } else if (console.finished()) {
      break;
    } else {
      co_await console.changed();
    }
  }
  co_return Result<void>();
}

}  // namespace

async::Task<void> ControlDoor::answer(rpc::Call call) {
  Bytes aligned = call.request();
  auto request = wire::verify<linkapi::Request>(aligned);
  if (!request.ok()) {
    call.finish(field_error("request", "link.malformed_request", "the request failed verification"));
    co_return;
  }
  Result<void> outcome;
  switch ((*request)->body_type()) {
    case linkapi::RequestBody::GuestCall:
      outcome = co_await guest_call(call, *(*request)->body_as_GuestCall());
      break;
    case linkapi::RequestBody::Console:
      outcome = co_await console(call, *(*request)->body_as_Console());
      break;
    default:
      outcome = make_error(Code::kPermissionDenied, "link.wrong_socket",
                           "this request is not served on the control socket");
      log_.warning("refused",
                   {{"door", "control"}, {"kind", linkapi::EnumNameRequestBody((*request)->body_type())}});
  }
  call.finish(outcome);
}

async::Task<Result<void>> ControlDoor::guest_call(rpc::Call& call, const linkapi::GuestCall& request) {
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  SPACE_CO_TRY(RequestFacts facts, examine_request(bytes_of(*request.request())));
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment, sandboxes_.find(sandbox));
  auto limit = std::min(std::chrono::milliseconds(request.answer_deadline_ms()), kMaxAnswerLimit);

  auto started = std::chrono::steady_clock::now();
  RelayCounts counts;
  auto outcome = co_await relay_call(call, *attachment, facts, to_bytes(bytes_of(*request.request())), limit,
                                     counts, log_);
  auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started);
  log_.info("guest_call", {{"sandbox", sandbox.str()},
                           {"kind", guestapi::EnumNameRequestBody(facts.kind)},
                           {"outcome", counts.client_left ? "client_left"
                                       : outcome.ok()     ? "ok"
                                                          : outcome.error().reason},
                           {"to_guest_bytes", std::to_string(counts.to_guest_bytes)},
                           {"from_guest_bytes", std::to_string(counts.from_guest_bytes)},
                           {"ms", std::to_string(took.count())}});
  co_return outcome;
}

async::Task<Result<void>> ControlDoor::console(rpc::Call& call, const linkapi::Console& request) {
  using boost::asio::experimental::awaitable_operators::operator||;
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment, sandboxes_.find(sandbox));
  // The console outlives the attachment; a follower stays across a reattachment.
  std::shared_ptr<Console> console = attachment->console();
  attachment.reset();
  auto outcome = co_await (send_console(call, *console, request.follow()) || call.gone());
  bool left = outcome.index() == 1;
  log_.info("console", {{"sandbox", sandbox.str()},
                        {"follow", request.follow() ? "true" : "false"},
                        {"outcome", left ? "client_left" : "ok"}});
  if (left) co_return std::get<1>(std::move(outcome));
  co_return std::get<0>(std::move(outcome));
}

}  // namespace space::link
