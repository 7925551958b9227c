// SPDX-License-Identifier: Apache-2.0
#include "control/remembered.h"

#include <charconv>

#include "control/meta/operations.h"

namespace space::control {
namespace {

// "201 <body>", or "E <code> <reason>\n<field>\n<message>".
std::string write_outcome(const Result<Answer>& outcome) {
  if (outcome.ok()) return std::to_string(outcome->status) + " " + outcome->body;
  const Error& error = outcome.error();
  return "E " + std::to_string(static_cast<int>(error.code)) + " " + error.reason + "\n" + error.field +
         "\n" + error.message;
}

int leading_number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<Answer> read_outcome(const std::string& text) {
  if (!text.starts_with("E ")) {
    auto space = text.find(' ');
    return Answer{static_cast<unsigned>(leading_number(text)),
                  text.substr(std::min(space, text.size() - 1) + 1)};
  }
  auto space = text.find(' ', 2);
  auto first = text.find('\n');
  auto second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (space == std::string::npos || second == std::string::npos || space > first) {
    return make_error(Code::kDataLoss, "meta.corrupt", "a kept answer is damaged");
  }
  int code = leading_number(std::string_view(text).substr(2));
  return Error{code > 0 && code <= kMaxCode ? static_cast<Code>(code) : Code::kInternal,
               text.substr(space + 1, first - space - 1), text.substr(second + 1),
               text.substr(first + 1, second - first - 1)};
}

}  // namespace

// Holds a key while its request is worked at.
struct Remembered::Turn {
  Turn(Remembered& owner, Place place) : owner_(owner), place_(std::move(place)) {
    owner_.under_way_[place_] = std::make_shared<async::Event>(owner_.executor_);
  }
  ~Turn() {
    auto found = owner_.under_way_.find(place_);
    auto event = found->second;
    owner_.under_way_.erase(found);
    event->notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Remembered& owner_;
  Place place_;
};

async::Task<Result<Answer>> Remembered::once(TenantId tenant, std::optional<operations::IdempotencyKey> key,
                                             async::Task<Result<Answer>> act) {
  if (!key) co_return co_await std::move(act);
  Place place{tenant.str(), key->key};
  for (auto found = under_way_.find(place); found != under_way_.end(); found = under_way_.find(place)) {
    auto event = found->second;
    co_await event->wait();
  }
  Turn turn(*this, place);
  WallTime now = clock_.wall();
  auto known = co_await store_.write(
      [tenant, key, now](meta::Database& database) -> Result<std::optional<std::string>> {
        SPACE_TRY(auto row, meta::find_idempotency(database, tenant, key->key));
        if (row) {
          if (row->request_sha256 == key->request_sha256 && !row->operation) return row->outcome;
          return make_error(Code::kFailedPrecondition, "control.idempotency_conflict",
                            "this Idempotency-Key was used for another request; use a new one");
        }
        SPACE_CHECK_OK(meta::insert_idempotency(database, tenant, now,
                                                {key->key, key->request_sha256, std::nullopt, std::nullopt}));
        return std::optional<std::string>();
      });
  if (!known.ok()) co_return std::move(known).error();
  if (*known) co_return read_outcome(**known);

  auto outcome = co_await std::move(act);
  bool keep = outcome.ok() || !outcome.error().retryable();
  std::string text = keep ? write_outcome(outcome) : std::string();
  (co_await store_.write([tenant, key, keep, text](meta::Database& database) {
    return keep ? meta::set_idempotency_outcome(database, tenant, key->key, text)
                : meta::remove_idempotency(database, tenant, key->key);
  })).ignore("without it a retry does the work again, as after a crash");
  co_return outcome;
}

}  // namespace space::control
