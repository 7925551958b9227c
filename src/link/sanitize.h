// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a daemon says, checked field by field and built anew.
//
// The other end of a guest channel is hostile. Nothing of its messages goes further as it came: every field
// is read from the verified buffer, held against a limit, and put into a new message. Reading does not copy
// before it has checked, since a small FlatBuffer may name one long string thousands of times.
//
// Promises: a message that passes holds only values within the limits below; strings hold no NUL; strings
// that are no path are valid UTF-8; the result fits in one wire message. Not here: which message may come
// when (call_rules.h).
//
// Pure. Posture: hostile-guest. Errors of all: link.protocol_error.

#include <cstdint>
#include <string>

#include "api/guest_generated.h"
#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/base/result.h"

namespace space::link {

inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxCommandIdBytes = 128;
inline constexpr std::size_t kMaxArguments = 4096;
inline constexpr std::size_t kMaxArgumentBytes = 32 * 1024;  // of all arguments together
inline constexpr std::size_t kMaxHelloTextBytes = 128;
inline constexpr std::size_t kMaxStatusMessageBytes = 512;
inline constexpr std::uint32_t kMaxPid = 1U << 22;
inline constexpr int kMaxSignal = 64;
// Sizes, offsets and counters: what a file offset can say.
inline constexpr std::uint64_t kMaxCount = (std::uint64_t{1} << 63) - 1;
// Milliseconds of 9999-12-31, so that a time can always be written with a four-digit year; and of 0001-01-01.
inline constexpr std::int64_t kMaxTimeMs = 253'402'300'799'999;
inline constexpr std::int64_t kMinTimeMs = -62'135'596'800'000;

// What of a request decides which answers make sense.
struct RequestFacts {
  guestapi::RequestBody kind{};
  std::string path;          // ReadFile, WriteFile, StatFile, WatchFiles
  bool pty = false;          // Exec
  bool detached = false;     // Exec
  bool open_stdin = false;   // Exec
  std::uint64_t length = 0;  // ReadFile: 0 is to the end
};

// Of a request that a client wants relayed. What a daemon repeats in its answers (paths, command ids) is held
// against the limits here, so that an honest daemon never breaks them. Errors, all invalid_argument:
// link.malformed_request, link.malformed_path, link.malformed_command_id.
Result<RequestFacts> examine_request(ByteView request);
// Of a message that a client sends within a call: a guestapi.Control. Errors: link.malformed_message.
Result<guestapi::ControlBody> examine_control(ByteView message);

struct CleanReply {
  guestapi::ReplyBody kind{};
  Bytes message;     // a guestapi.Reply
  bool pty = false;  // of Attached
};

// `message` is what the daemon sent in answer to the request of `facts`.
Result<CleanReply> sanitize_reply(ByteView message, const RequestFacts& facts);

// The error that a daemon ended a call with. Never fails: a reason that isn't guest.[a-z_]{1,48} becomes
// guest.invalid_reason, the message is escaped and cut, a field that is no plain name is dropped.
Error sanitize_status(const Error& from_guest);

Error protocol_error(std::string what);

}  // namespace space::link
