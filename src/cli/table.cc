// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/api.h"
#include "cli/printable.h"
#include "lib/base/clock.h"
#include "lib/base/size.h"

namespace space::cli {
namespace {

// The two largest units of a duration: "1d 3h", "59m", "12s".
std::string rough(std::chrono::seconds length) {
  auto s = length.count();
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m", s / 60);
  if (s < 86400)
    return s % 3600 < 60 ? fmt::format("{}h", s / 3600) : fmt::format("{}h {}m", s / 3600, s % 3600 / 60);
  return s % 86400 < 3600 ? fmt::format("{}d", s / 86400)
                          : fmt::format("{}d {}h", s / 86400, s % 86400 / 3600);
}

}  // namespace

Table::Table(std::vector<std::string> heads) {
  rows_.push_back(std::move(heads));
}

void Table::row(std::vector<std::string> cells) {
  for (auto& cell : cells) cell = printable(cell);
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - columns(row[i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) {
    if (!value.empty()) width = std::max(width, name.size());
  }
  std::string out;
  for (const auto& [name, value] : rows) {
    if (!value.empty()) out += name + std::string(width - name.size() + 2, ' ') + printable(value) + "\n";
  }
  return out;
}

std::string human_size(std::uint64_t bytes) {
  std::string exact = format_size(bytes);
  if (exact.size() <= 7) return exact;
  static constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f}{}", value, kUnits[unit]);
}

std::string human_resources(const boost::json::value& resources) {
  auto cpus = number_of(resources, "vcpus");
  return fmt::format("{} vCPU{}, {} memory, {} disk", cpus, cpus == 1 ? "" : "s",
                     human_size(static_cast<std::uint64_t>(number_of(resources, "memory_bytes"))),
                     human_size(static_cast<std::uint64_t>(number_of(resources, "disk_bytes"))));
}

std::string relative_time(std::string_view rfc3339) {
  auto time = parse_rfc3339(rfc3339);
  if (!time.ok()) return {};
  auto distance = std::chrono::duration_cast<std::chrono::seconds>(*time - SystemClock().wall());
  return distance.count() >= 0 ? "in " + rough(distance) : rough(-distance) + " ago";
}

}  // namespace space::cli
