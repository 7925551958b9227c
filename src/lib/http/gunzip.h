// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decompresses a gzip stream piece by piece in constant memory. Several members one after the other are one
// stream, as gzip(1) has it. Resource type. Posture: hostile-network.

#include <cstddef>
#include <memory>
#include <span>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::http {

class Gunzip {
 public:
  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  struct Step {
    std::size_t consumed = 0;  // of `in`
    std::size_t produced = 0;  // of `out`
  };
  // Turns a prefix of `in` into a prefix of `out`. Both may be zero when more input is needed.
  // Errors: http.malformed_gzip.
  Result<Step> step(ByteView in, std::span<std::byte> out);
  // Would an end of input here be a complete stream?
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  bool complete_ = false;
};

}  // namespace space::http
