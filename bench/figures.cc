// SPDX-License-Identifier: Apache-2.0
#include "bench/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lib/base/check.h"

namespace space::bench {

double Samples::percentile(double p) const {
  SPACE_CHECK(!values_.empty());
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  auto rank = static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

void say(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace space::bench
