// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a build tells what it is doing: lines, each with the time since the build began.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace space::node::tmpl {

struct Progress {
  std::string line;  // one sentence, no newline
  std::chrono::milliseconds elapsed{0};
};
using ProgressFn = std::function<void(const Progress&)>;

// Stamps lines. Belongs to one build and one thread.
class Reporter {
 public:
  explicit Reporter(ProgressFn out) : out_(std::move(out)), start_(std::chrono::steady_clock::now()) {}

  void say(std::string_view line) {
    last_ = line;
    emit(last_);
  }
  // Nothing new for a while: the last line again, so that a reader sees that it goes on.
  void still_busy() { emit("still: " + last_); }

 private:
  void emit(const std::string& line) {
    if (!out_) return;
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    out_(Progress{line, std::chrono::duration_cast<std::chrono::milliseconds>(elapsed)});
  }

  ProgressFn out_;
  std::chrono::steady_clock::time_point start_;
  std::string last_;
};

}  // namespace space::node::tmpl
