// SPDX-License-Identifier: Apache-2.0
#include "node/capture/zero_page.h"

#include <cstdint>
#include <cstring>

namespace space::node::capture {
namespace {

std::uint64_t word(const std::byte* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// ORs four independent sums over 512 bytes; compilers make vector code of whatever width the target has.
template <class Words>
[[gnu::always_inline]] inline bool all_zero(const Words* words) {
  for (std::size_t block = 0; block < kPageBytes / sizeof(std::uint64_t); block += 64) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < 64; ++i) sum |= words[block + i];
    if (sum != 0) return false;
  }
  return true;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool all_zero_avx2(const std::uint64_t* words) {
  return all_zero(words);
}
#endif
bool all_zero_plain(const std::uint64_t* words) {
  return all_zero(words);
}

using Check = bool (*)(const std::uint64_t*);
Check best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return all_zero_avx2;
#endif
  return all_zero_plain;
}

}  // namespace

bool is_zero_page(const std::byte* page) {
  static const Check check = best();
  if ((word(page) | word(page + 1024) | word(page + 2048) | word(page + kPageBytes - 8)) != 0) return false;
  // SAFETY: pages are aligned to 8 bytes and hold plain bytes, which 64-bit words may alias here since
  // nothing else writes to them meanwhile.
  return check(reinterpret_cast<const std::uint64_t*>(page));
}

}  // namespace space::node::capture
