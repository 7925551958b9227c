// SPDX-License-Identifier: Apache-2.0
#include "lib/os/random.h"

#include <sys/random.h>

#include <array>

#include "lib/base/check.h"

namespace space::os {

std::string Random::id_text() {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr unsigned kFair = 256 / 36 * 36;  // bytes from here on would make some characters likelier
  std::string text;
  while (text.size() < kIdLength) {
    std::array<std::byte, 32> bytes;
    fill(bytes);
    for (std::byte b : bytes) {
      auto value = static_cast<unsigned>(b);
      if (value < kFair && text.size() < kIdLength) text += kAlphabet[value % kAlphabet.size()];
    }
  }
  return text;
}

void SystemRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    ssize_t got = ::getrandom(out.data(), out.size(), 0);
    SPACE_CHECK(got > 0);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

// SplitMix64 (Steele, Lea, Flood 2014).
void SeededRandom::fill(std::span<std::byte> out) {
  for (std::byte& b : out) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    b = static_cast<std::byte>((z ^ (z >> 31)) & 0xff);
  }
}

}  // namespace space::os
