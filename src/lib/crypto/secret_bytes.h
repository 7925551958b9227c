// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that must not leak: zeroed when they end, never copied by accident, with no way to print them.
//
// Resource type: move only. A moved-from object is empty. copy() is spelled out so that it can be searched.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/bytes.h"

namespace space::crypto {

// Overwrites memory in a way that the compiler may not drop.
void wipe(std::span<std::byte> memory);

// Compares in time that depends on the lengths only.
bool equal_constant_time(ByteView a, ByteView b);

class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(std::size_t size) : bytes_(size) {}
  // Copies `plain`; the caller wipes its own.
  static SecretBytes copy_of(ByteView plain) {
    SecretBytes secret(plain.size());
    std::copy(plain.begin(), plain.end(), secret.bytes_.begin());
    return secret;
  }
  SecretBytes(SecretBytes&& other) noexcept : bytes_(std::move(other.bytes_)) { other.bytes_.clear(); }
  SecretBytes& operator=(SecretBytes&& other) noexcept {
    if (this != &other) {
      wipe(bytes_);
      bytes_ = std::move(other.bytes_);
      other.bytes_.clear();
    }
    return *this;
  }
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  ~SecretBytes() { wipe(bytes_); }

  [[nodiscard]] SecretBytes copy() const { return copy_of(view()); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // Valid while the object lives and isn't assigned to.
  [[nodiscard]] ByteView view() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> writable() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;  // never resized: a reallocation would leave a copy behind
};

}  // namespace space::crypto
