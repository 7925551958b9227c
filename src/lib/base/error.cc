// SPDX-License-Identifier: Apache-2.0
#include "lib/base/error.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace space {
namespace {

constexpr std::array<std::string_view, kMaxCode + 1> kNames = {
    "ok",
    "invalid_argument",
    "not_found",
    "already_exists",
    "failed_precondition",
    "permission_denied",
    "unauthenticated",
    "resource_exhausted",
    "aborted",
    "deadline_exceeded",
    "unavailable",
    "data_loss",
    "unimplemented",
    "internal",
};

Code code_from_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return Code::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::kInvalidArgument;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
    case EXDEV:
      return Code::kFailedPrecondition;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace

std::string_view to_string(Code code) {
  auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Code code_from_string(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Code>(i);
  }
  return Code::kInternal;
}

Error&& Error::context(std::string_view where) && {
  message.insert(0, ": ");
  message.insert(0, where);
  return std::move(*this);
}

bool Error::retryable() const {
  return code == Code::kUnavailable || code == Code::kAborted || code == Code::kDeadlineExceeded;
}

std::string Error::describe() const {
  std::string text(to_string(code));
  if (!reason.empty()) text.append(" ").append(reason);
  if (!field.empty()) text.append(" [").append(field).append("]");
  return text.append(": ").append(message);
}

Error errno_error(int error_number, std::string reason, std::string_view what) {
  char buffer[128];
  // GNU strerror_r returns the text; it may or may not have used the buffer.
  std::string message(what);
  message.append(": ").append(strerror_r(error_number, buffer, sizeof buffer));
  return make_error(code_from_errno(error_number), std::move(reason), std::move(message));
}

}  // namespace space
