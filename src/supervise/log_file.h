// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a service process writes: kept in a file that can't grow without end, and its warnings shown.

#include <functional>
#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::supervise {

inline constexpr std::size_t kMaxLogBytes = 32u << 20;
inline constexpr int kKeptLogs = 3;  // NAME.log.1 is the newest of the old ones

// Resource type.
class LogFile {
 public:
  // A file that is there is put aside, if it holds anything.
  static Result<LogFile> open(const std::string& path, std::size_t max_bytes = kMaxLogBytes);

  // Appends; begins a new file when this one is full. Errors are swallowed: a full disk must not stop the
  // platform.
  void append(std::string_view bytes);

 private:
  LogFile(std::string path, os::Fd fd, std::size_t max_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), max_bytes_(max_bytes) {}
  std::string path_;
  os::Fd fd_;
  std::size_t max_bytes_;
  std::size_t size_ = 0;
};

// Cuts a byte stream into lines; a longer line comes in pieces. Pure.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLine = 16u << 10;
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& take);

 private:
  std::string rest_;
};

// What of a line to show on the supervisor's standard error, made harmless for a terminal: warnings and
// errors of structured logs in short form, and every line that isn't one (an assertion's, a library's). Pure.
std::optional<std::string> line_to_show(const std::string& name, std::string_view line);

}  // namespace space::supervise
