// SPDX-License-Identifier: Apache-2.0
#pragma once
// Structured log lines on a descriptor: one JSON object per line with time, level, process, event and fields.
// Values are escaped; bytes from a guest or a client go in as text and can't break a line. There is no global
// logger: main() makes one and hands it down. Thread-safe (one write(2) per line).

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/error.h"

namespace space::obs {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };

using Field = std::pair<std::string_view, std::string>;

class Log {
 public:
  // `fd` is borrowed. `process` names the writer ("node").
  Log(int fd, std::string process, const Clock& clock, Level least = Level::kInfo)
      : fd_(fd), process_(std::move(process)), clock_(clock), least_(least) {}

  void debug(std::string_view event, std::initializer_list<Field> fields = {}) const {
    write(Level::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<Field> fields = {}) const {
    write(Level::kInfo, event, fields);
  }
  void warning(std::string_view event, std::initializer_list<Field> fields = {}) const {
    write(Level::kWarning, event, fields);
  }
  void error(std::string_view event, std::initializer_list<Field> fields = {}) const {
    write(Level::kError, event, fields);
  }

 private:
  void write(Level level, std::string_view event, std::initializer_list<Field> fields) const;

  int fd_;
  std::string process_;
  const Clock& clock_;
  Level least_;
};

// A JSON string literal of `text`, quotes included; control characters and bytes that are not UTF-8 are
// escaped.
std::string json_quote(std::string_view text);

}  // namespace space::obs
