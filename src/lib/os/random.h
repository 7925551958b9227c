// SPDX-License-Identifier: Apache-2.0
#pragma once
// Randomness as a constructor argument.

#include <span>
#include <string>

#include "lib/base/bytes.h"
#include "lib/base/id.h"

namespace space::os {

class Random {
 public:
  virtual ~Random() = default;
  // Never fails: a machine without entropy is a reason to abort.
  virtual void fill(std::span<std::byte> out) = 0;

  // kIdLength characters of [a-z0-9], uniform.
  std::string id_text();
  template <class AnyId>
  AnyId id() {
    return AnyId(id_text());
  }
};

// getrandom(2).
class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override;
};

// A seeded sequence for tests.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  void fill(std::span<std::byte> out) override;

 private:
  std::uint64_t state_;
};

}  // namespace space::os
