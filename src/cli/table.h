// SPDX-License-Identifier: Apache-2.0
#pragma once
// Human output: aligned columns and key/value lists. Cells are made harmless for the terminal. Pure.

#include <boost/json/value.hpp>
#include <string>
#include <vector>

namespace space::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> heads);
  void row(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first holds the heads
};

// "name  value" lines, aligned; rows with an empty value are left out.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

// "1.5MiB"; exact values stay exact ("512MiB").
std::string human_size(std::uint64_t bytes);
// "1 vCPU, 512MiB memory, 8GiB disk" of a resources object.
std::string human_resources(const boost::json::value& resources);
// "in 59m" or "3m ago"; empty when `rfc3339` isn't a time.
std::string relative_time(std::string_view rfc3339);

}  // namespace space::cli
