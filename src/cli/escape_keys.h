// SPDX-License-Identifier: Apache-2.0
#pragma once
// The escape of an interactive terminal: "~." at the beginning of a line leaves, "~~" sends one tilde, as in
// ssh. Pure.

#include <string>
#include <string_view>

namespace space::cli {

class EscapeKeys {
 public:
  struct Out {
    std::string bytes;  // to send
    bool leave = false;
  };

  Out feed(std::string_view typed) {
    Out out;
    for (char c : typed) {
      if (state_ == State::kTilde) {
        state_ = State::kInside;
        if (c == '.') {
          out.leave = true;
          return out;
        }
        if (c != '~') out.bytes += '~';
      } else if (state_ == State::kLineStart && c == '~') {
        state_ = State::kTilde;
        continue;
      }
      out.bytes += c;
      state_ = c == '\r' || c == '\n' ? State::kLineStart : State::kInside;
    }
    return out;
  }

 private:
  enum class State : unsigned char { kLineStart, kTilde, kInside };
  State state_ = State::kLineStart;
};

}  // namespace space::cli
