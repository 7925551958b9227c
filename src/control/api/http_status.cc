// SPDX-License-Identifier: Apache-2.0
#include "control/api/http_status.h"

#include <algorithm>
#include <array>

namespace space::control::api {
namespace {

struct Entry {
  std::string_view reason;
  std::string_view code;
  unsigned status;
};

// Generated from api/errors.yaml: {"module.reason", "code", status}, in the order of the file.
constexpr Entry kEntries[] = {
#include "control/reason_status.inc"
};

unsigned status_of(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kFailedPrecondition:
    case Code::kAborted:
      return 409;
    case Code::kResourceExhausted:
      return 429;
    case Code::kDeadlineExceeded:
      return 504;
    case Code::kUnavailable:
      return 503;
    case Code::kUnimplemented:
      return 501;
    case Code::kDataLoss:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

unsigned http_status(const Error& error) {
  unsigned by_code = status_of(error.code);
  const auto* found = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& entry) { return entry.reason == error.reason; });
  // A guest may give a reason with an unusual code; then the code decides.
  if (found != std::end(kEntries) && found->code != to_string(error.code)) return by_code;
  return found == std::end(kEntries) ? by_code : found->status;
}

}  // namespace space::control::api
