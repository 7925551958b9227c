// SPDX-License-Identifier: Apache-2.0
#pragma once
// Samples, their percentiles, and the one line of JSON that a benchmark prints.

#include <boost/json/object.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace space::bench {

// Milliseconds since `start`.
inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  [[nodiscard]] std::size_t count() const { return values_.size(); }
  // Nearest rank; precondition: not empty. `p` in (0, 100].
  [[nodiscard]] double percentile(double p) const;

 private:
  std::vector<double> values_;
};

// Rounded to three digits behind the point, so that a line stays readable.
double rounded(double value);

// Progress for people, on stderr.
void say(std::string_view text);

}  // namespace space::bench
