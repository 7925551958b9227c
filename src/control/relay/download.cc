// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "control/relay/file_transfer.h"
#include "lib/http/range.h"
#include "model/command.h"

namespace space::control::relay {
namespace {

using upstream::GuestEvent;

http::Response head_of(const guestapi::FileInfoT& info) {
  http::Response response;
  response.headers.set("Content-Type", "application/octet-stream");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("Accept-Ranges", "bytes");
  response.headers.set("Space-File-Mode", model::format_mode(info.mode));
  response.headers.set("Space-File-Size", std::to_string(info.size));
  return response;
}

http::Response not_satisfiable(std::uint64_t size) {
  auto response = api::error_response(
      make_error(Code::kInvalidArgument, "http.range_not_satisfiable", "the file has no byte in this range"));
  response.headers.set("Content-Range", "bytes */" + std::to_string(size));
  return response;
}

async::Task<Result<guestapi::FileInfoT>> stat(api::Call& call, SandboxId sandbox, std::string path) {
  guestapi::StatFileT stat;
  stat.path = std::move(path);
  guestapi::RequestT request;
  request.body.Set(std::move(stat));
  SPACE_CO_TRY(auto reply, co_await call.services.link.ask(std::move(sandbox), std::move(request)));
  auto* info = reply.body.AsFileInfo();
  if (info == nullptr)
    co_return make_error(Code::kDataLoss, "wire.unexpected_message", "the guest sent another kind of answer");
  co_return *info;
}

// Exactly `length` bytes, or without a length all there are. False: the transfer broke.
async::Task<bool> send_body(api::Call& call, upstream::GuestCall& guest, std::optional<GuestEvent> event,
                            std::optional<std::uint64_t> length) {
  std::uint64_t sent = 0;
  for (;;) {
    if (length && sent == *length) co_return true;  // a file that grows meanwhile is cut where it ended
    if (!event) {
      auto next = co_await guest.next();
      if (!next.ok()) co_return false;
      event = std::move(*next);
    }
    if (auto* end = std::get_if<rpc::End>(&*event))
      co_return end->status.ok() && (!length || sent == *length);
    if (auto* data = std::get_if<rpc::Data>(&*event)) {
      ByteView bytes = data->bytes;
      if (length)
        bytes = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), *length - sent)));
      if (!(co_await call.exchange.write(bytes)).ok()) co_return false;
      sent += bytes.size();
    }
    event.reset();
  }
}

// HEAD, and ranges counted from the end, need the size first.
async::Task<void> head_only(api::Call& call, SandboxId sandbox, std::string path) {
  auto info = co_await stat(call, std::move(sandbox), std::move(path));
  if (!info.ok()) co_return co_await api::reply_error(call, info.error());
  if (info->kind == guestapi::FileKind::Directory) {
    co_return co_await api::reply_error(
        call, make_error(Code::kFailedPrecondition, "guest.is_a_directory", "this is a directory"));
  }
  auto begun = co_await call.exchange.begin(head_of(*info), info->size);
  if (!begun.ok()) co_return;
  (co_await call.exchange.finish()).ignore("HEAD has no body");
}

}  // namespace

async::Task<void> download(api::Call& call, meta::SessionRow session, std::string path) {
  if (call.exchange.request().method == "HEAD") co_return co_await head_only(call, session.sandbox, path);
  std::optional<http::ByteRange> range;
  if (const auto* header = call.exchange.request().headers.find("Range")) range = http::parse_range(*header);
  if (range && !range->first) {
    auto info = co_await stat(call, session.sandbox, path);
    if (!info.ok()) co_return co_await api::reply_error(call, info.error());
    auto extent = http::resolve(*range, info->size);
    if (!extent) {
      (co_await call.exchange.respond(not_satisfiable(info->size))).ignore("the client has gone");
      co_return;
    }
    range = http::ByteRange{extent->offset, extent->offset + extent->length - 1};
  }

  guestapi::ReadFileT read;
  read.path = path;
  if (range) {
    read.offset = *range->first;
    read.length = range->last ? *range->last - *range->first + 1 : 0;
  }
  guestapi::RequestT request;
  request.body.Set(std::move(read));
  auto opened = co_await call.services.link.open(session.sandbox, std::move(request));
  if (!opened.ok()) co_return co_await api::reply_error(call, opened.error());
  auto* reply = std::get_if<guestapi::ReplyT>(&opened->first);
  auto* info = reply == nullptr ? nullptr : reply->body.AsFileInfo();
  if (info == nullptr) {
    co_return co_await api::reply_error(call, make_error(Code::kDataLoss, "wire.unexpected_message",
                                                         "the guest sent another kind of answer"));
  }

  http::Response head = head_of(*info);
  std::optional<std::uint64_t> length = info->size;
  std::optional<GuestEvent> second;
  if (range) {
    auto extent = http::resolve(*range, info->size);
    if (!extent) {
      (co_await call.exchange.respond(not_satisfiable(info->size))).ignore("the client has gone");
      co_return;
    }
    head.status = 206;
    head.headers.set("Content-Range", "bytes " + std::to_string(extent->offset) + "-" +
                                          std::to_string(extent->offset + extent->length - 1) + "/" +
                                          std::to_string(info->size));
    length = extent->length;
  } else if (info->size == 0) {
    // Files of /proc and the like have bytes although they say that they are empty: look before promising a
    // length.
    auto next = co_await opened->call.next();
    if (!next.ok()) co_return co_await api::reply_error(call, next.error());
    if (auto* end = std::get_if<rpc::End>(&*next); end != nullptr && !end->status.ok())
      co_return co_await api::reply_error(call, end->status.error());
    if (std::holds_alternative<rpc::Data>(*next)) length.reset();
    second = std::move(*next);
  }
  if (!(co_await call.exchange.begin(std::move(head), length)).ok()) co_return;
  if (!co_await send_body(call, opened->call, std::move(second), length)) co_return;
  (co_await call.exchange.finish()).ignore("the client has gone");
}

async::Task<void> list_directory(api::Call& call, meta::SessionRow session, std::string path) {
  guestapi::ListDirectoryT list;
  list.path = std::move(path);
  guestapi::RequestT request;
  request.body.Set(std::move(list));
  auto opened = co_await call.services.link.open(session.sandbox, std::move(request));
  if (!opened.ok()) co_return co_await api::reply_error(call, opened.error());

  // The first page decides between an error and a listing; from then on pages pass through one by one.
  auto response = api::json_response(200, "");
  if (!(co_await call.exchange.begin(std::move(response), std::nullopt)).ok()) co_return;
  std::string piece = "{\"items\":[";
  bool first = true;
  GuestEvent event = std::move(opened->first);
  while (!std::holds_alternative<rpc::End>(event)) {
    auto* reply = std::get_if<guestapi::ReplyT>(&event);
    auto* page = reply == nullptr ? nullptr : reply->body.AsDirectoryPage();
    if (page == nullptr) co_return;
    for (const auto& entry : page->entries) {
      if (!first) piece += ',';
      first = false;
      piece += api::file_json(*entry);
    }
    if (!(co_await call.exchange.write(as_bytes(piece))).ok()) co_return;
    piece.clear();
    auto next = co_await opened->call.next_within(std::chrono::seconds(60));
    if (!next.ok()) co_return;
    event = std::move(*next);
  }
  if (!std::get<rpc::End>(event).status.ok()) co_return;
  piece += "],\"next_page_token\":null}";
  if (!(co_await call.exchange.write(as_bytes(piece))).ok()) co_return;
  (co_await call.exchange.finish()).ignore("the client has gone");
}

}  // namespace space::control::relay
