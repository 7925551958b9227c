// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the database holds, as values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/id.h"
#include "model/operation.h"
#include "model/session.h"
#include "model/session_request.h"

namespace space::control::meta {

// Why a session is in its state: a stable reason and a sentence.
struct Status {
  std::string reason;
  std::string message;
  bool operator==(const Status&) const = default;
};

// What the node said about the live or last sandbox.
struct SandboxFacts {
  std::string node;
  std::string backend;
  std::string acceleration;
  WallTime started;
  bool adopted = false;
  bool operator==(const SandboxFacts&) const = default;
};

struct SessionRow {
  TenantId tenant;
  SessionId id;
  std::optional<std::string> name;
  model::SessionState state = model::SessionState::kCreating;
  std::optional<Status> status;
  std::string template_name;
  model::Resources resources;
  std::uint64_t ttl_seconds = 0;
  model::Labels labels;
  WallTime created;
  std::optional<WallTime> started;
  WallTime expires;
  std::optional<WallTime> ended;
  std::uint64_t generation = 1;
  SandboxId sandbox;  // chosen with the session, before the node knows of it
  std::optional<SandboxFacts> facts;
  std::uint64_t version = 1;
};

struct OperationRow {
  TenantId tenant;
  OperationId id;
  model::OperationKind kind = model::OperationKind::kCreateSession;
  std::optional<SessionId> session;
  std::optional<std::string> template_name;
  model::OperationState state = model::OperationState::kPending;
  WallTime created;
  WallTime deadline;
  std::optional<WallTime> ended;
  std::optional<Error> error;
};

struct StepRow {
  WallTime at;
  std::string step;
  std::string detail;
};

struct IdempotencyRow {
  std::string key;
  std::string request_sha256;
  std::optional<OperationId> operation;
  std::optional<std::string> outcome;  // of a request that is no operation, once it is known
};

struct ApiKeyRow {
  TenantId tenant;
  std::string id;
  std::string sha256;  // lower-case hexadecimal
  std::string name;
  std::optional<WallTime> revoked;
};

// Where a listing goes on: after this row, in the order newest first.
struct Cursor {
  std::int64_t created_us = 0;
  std::string id;
};

inline std::int64_t to_us(WallTime time) {
  return time.time_since_epoch().count();
}
inline WallTime from_us(std::int64_t us) {
  return WallTime(std::chrono::microseconds(us));
}

}  // namespace space::control::meta
