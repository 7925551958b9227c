// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line on a terminal that says how far a copy is; nothing when standard error isn't one. Resource type.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace space::cli::copy {

class Progress {
 public:
  explicit Progress(int fd);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void file(std::string name, std::optional<std::uint64_t> size);
  void add(std::uint64_t bytes);
  // Takes the line away, before something else is written.
  void clear();

 private:
  void draw();
  int fd_;
  bool enabled_;
  bool drawn_ = false;
  std::string name_;
  std::optional<std::uint64_t> size_;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace space::cli::copy
