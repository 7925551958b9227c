// SPDX-License-Identifier: Apache-2.0
#pragma once
// Result<T>: a value or an Error. Every fallible call across a module boundary returns one.
//
//   Result<Fd> open_log();
//   SPACE_TRY(Fd log, open_log());           // in a function that returns a Result
//   SPACE_CO_TRY(Fd log, co_await open());   // in a coroutine whose task carries a Result
//
// A Result may not be dropped: read it, pass it on, or say `.ignore("why")`. Value type. Default
// construction (wanted by Asio for results of spawned coroutines) gives an internal error.

#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "lib/base/error.h"

namespace space {

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result() : state_(Error{Code::kInternal, "base.unset", "result was never set", {}}) {}
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): by design

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  // Precondition: ok().
  T& value() & { return check(), *std::get_if<T>(&state_); }
  const T& value() const& { return check(), *std::get_if<T>(&state_); }
  T&& value() && { return check(), std::move(*std::get_if<T>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !ok().
  [[nodiscard]] const Error& error() const& {
    if (ok()) std::abort();
    return *std::get_if<Error>(&state_);
  }
  Error&& error() && {
    if (ok()) std::abort();
    return std::move(*std::get_if<Error>(&state_));
  }

  // Drops the result on purpose.
  void ignore(const char* why) const { (void)why; }

 private:
  void check() const {
    if (!ok()) std::abort();
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor): by design

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (!ok()) std::abort();
  }
  [[nodiscard]] const Error& error() const& {
    if (ok()) std::abort();
    return *error_;
  }
  Error&& error() && {
    if (ok()) std::abort();
    return std::move(*error_);
  }
  void ignore(const char* why) const { (void)why; }

 private:
  std::optional<Error> error_;
};

}  // namespace space

#define SPACE_CAT2(a, b) a##b
#define SPACE_CAT(a, b) SPACE_CAT2(a, b)

// Declares `decl` from the value of `expr`, or returns its error.
#define SPACE_TRY(decl, ...) SPACE_TRY_IMPL(SPACE_CAT(space_try_, __COUNTER__), return, decl, __VA_ARGS__)
#define SPACE_CO_TRY(decl, ...) \
  SPACE_TRY_IMPL(SPACE_CAT(space_try_, __COUNTER__), co_return, decl, __VA_ARGS__)
#define SPACE_TRY_IMPL(tmp, ret, decl, ...)  \
  auto tmp = (__VA_ARGS__);                  \
  if (!tmp.ok()) ret std::move(tmp).error(); \
  decl = std::move(tmp).value()

// Returns the error of `expr`, a Result whose value is not wanted.
#define SPACE_CHECK_OK(...)                                                             \
  do {                                                                                  \
    if (auto space_r = (__VA_ARGS__); !space_r.ok()) return std::move(space_r).error(); \
  } while (false)
#define SPACE_CO_CHECK_OK(...)                                                             \
  do {                                                                                     \
    if (auto space_r = (__VA_ARGS__); !space_r.ok()) co_return std::move(space_r).error(); \
  } while (false)
