// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one error type of the platform.
//
// An Error says what happened (code and reason), in a sentence that tells the reader what to do (message),
// and for validation which field was wrong. Reasons are stable names `module.reason`, listed with their
// HTTP status in api/errors.yaml. Value type.

#include <cstdint>
#include <string>
#include <string_view>

namespace space {

// The canonical codes. Numbers are stored and sent between processes: never renumber.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,
  kNotFound = 2,
  kAlreadyExists = 3,
  kFailedPrecondition = 4,
  kPermissionDenied = 5,
  kUnauthenticated = 6,
  kResourceExhausted = 7,
  kAborted = 8,
  kDeadlineExceeded = 9,
  kUnavailable = 10,
  kDataLoss = 11,
  kUnimplemented = 12,
  kInternal = 13,
};
inline constexpr std::uint8_t kMaxCode = 13;

// "invalid_argument" and so on; "unknown" for a number outside the enumeration.
std::string_view to_string(Code code);
// The code with that name, or kInternal when there is none.
Code code_from_string(std::string_view name);

struct Error {
  Code code = Code::kInternal;
  std::string reason;   // stable, e.g. "node.no_memory"
  std::string message;  // a sentence for people
  std::string field;    // the offending field of a request, else empty

  // Adds where it happened in front of the message: "cannot start sandbox: <message>".
  Error&& context(std::string_view where) &&;

  // May the same request succeed later without any change?
  [[nodiscard]] bool retryable() const;

  // "code reason: message", for logs.
  [[nodiscard]] std::string describe() const;

  bool operator==(const Error&) const = default;
};

inline Error make_error(Code code, std::string reason, std::string message) {
  return Error{code, std::move(reason), std::move(message), {}};
}
inline Error field_error(std::string field, std::string reason, std::string message) {
  return Error{Code::kInvalidArgument, std::move(reason), std::move(message), std::move(field)};
}

// `what` followed by the text of an errno value; the code is chosen from the errno
// (ENOENT -> not_found, ENOSPC and EDQUOT -> resource_exhausted, EACCES and EPERM -> permission_denied, ...).
Error errno_error(int error_number, std::string reason, std::string_view what);

}  // namespace space
