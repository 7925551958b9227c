// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two kernel interfaces that tell the state of another process's pages: the PAGEMAP_SCAN ioctl
// (Linux 6.7) and the table of 64-bit entries in /proc/PID/pagemap (any kernel). Each function is one
// question over a whole range.

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "node/capture/page_run.h"
#include "node/capture/target.h"

namespace space::node::capture {

// Room for the answer of one ioctl; a scan that finds more goes on where it stopped. Reused between scans, so
// that no memory is allocated while the guest stands still.
class ScanBuffer {
 public:
  struct Region {  // as the kernel writes it
    std::uint64_t start, end, categories;
  };
  explicit ScanBuffer(std::size_t regions = 1u << 15) : regions_(regions) {}
  [[nodiscard]] std::vector<Region>& regions() { return regions_; }

 private:
  std::vector<Region> regions_;
};

enum class Rearm : std::uint8_t { kNo, kYes };

// Pages written since they were last protected. kYes protects exactly the pages that it reports, each in one
// step with the report: no write between the two is lost. Errors: those of Target; permission_denied when
// part of the range is not registered for asynchronous write protection. After an error of a kYes scan, pages
// may have been protected without having been reported.
Result<PageRuns> scan_written(const Target& target, ScanBuffer& buffer, Rearm rearm);

// Pages that have memory of their own in this process or come from the page cache and are mapped: touched by
// read or write. Exact where fault-around is off, as it is under write protection.
Result<PageRuns> scan_present(const Target& target, ScanBuffer& buffer);

// Bits of a pagemap entry.
inline constexpr std::uint64_t kEntrySoftDirty = std::uint64_t{1} << 55;
inline constexpr std::uint64_t kEntryFile = std::uint64_t{1} << 61;
inline constexpr std::uint64_t kEntrySwapped = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kEntryPresent = std::uint64_t{1} << 63;

// Calls `test` with every entry of the range and collects the pages for which it holds.
Result<PageRuns> select_entries(const Target& target, bool (*test)(std::uint64_t entry));

// Is this page no longer the mapped file's: does the process have, or have swapped out, a copy of its own?
// Unknown kinds of entries count as such.
bool is_private_entry(std::uint64_t entry);
bool is_present_entry(std::uint64_t entry);
bool is_soft_dirty_entry(std::uint64_t entry);

}  // namespace space::node::capture
