// SPDX-License-Identifier: Apache-2.0
#include "node/capture/pagemap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/check.h"

namespace space::node::capture {
namespace {

// From the kernel's include/uapi/linux/fs.h of 6.7, newer than the headers of Debian 12.
struct ScanArguments {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask,
      category_anyof_mask, return_mask;
};
static_assert(sizeof(ScanArguments) == 96);
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr std::uint64_t kProtectMatching = 1;  // PM_SCAN_WP_MATCHING
constexpr std::uint64_t kCheckAsync = 2;       // PM_SCAN_CHECK_WPASYNC
constexpr std::uint64_t kWritten = 1u << 1;    // PAGE_IS_WRITTEN
constexpr std::uint64_t kIsPresent = 1u << 3;  // PAGE_IS_PRESENT

Result<PageRuns> scan(const Target& target, ScanBuffer& buffer, std::uint64_t flags, std::uint64_t category) {
  const RamRange& range = target.range();
  const std::uint64_t end = range.address + range.size_bytes;
  auto& regions = buffer.regions();
  PageRuns runs;
  for (std::uint64_t at = range.address; at < end;) {
    ScanArguments arguments{};
    arguments.size = sizeof arguments;
    arguments.flags = flags;
    arguments.start = at;
    arguments.end = end;
    // SAFETY: the kernel writes at most vec_len regions, which the vector holds.
    arguments.vec = reinterpret_cast<std::uintptr_t>(regions.data());
    arguments.vec_len = regions.size();
    arguments.category_mask = category;
    arguments.return_mask = category;
    long found = ::ioctl(target.pagemap(), kPagemapScan, &arguments);
    if (found < 0) {
      if (errno == EINTR) {
        // The walk tells how far it came only on success; what it has protected until then is not known.
        if ((flags & kProtectMatching) == 0) continue;
      }
      return target.failure(errno, "scan the guest's pages");
    }
    // Up to where this call looked. Beyond 512 regions the kernel (6.7 to 6.18 at least) walks on and leaves
    // in walk_end where it stopped on the way, so the regions count, and a buffer with room left means "to
    // the end".
    std::uint64_t walked = arguments.walk_end;
    for (long i = 0; i < found; ++i) {
      const auto& region = regions[static_cast<std::size_t>(i)];
      std::uint64_t first = (region.start - range.address) / kPageBytes;
      if (region.start < at || region.end > end || region.end <= region.start ||
          (!runs.empty() && first < runs.back().end())) {
        return make_error(Code::kInternal, "capture.target", "the page scan reports pages out of order");
      }
      append_run(runs, first, (region.end - region.start) / kPageBytes);
      walked = std::max(walked, region.end);
    }
    if (static_cast<std::size_t>(found) < regions.size()) break;
    if (walked <= at) return make_error(Code::kInternal, "capture.target", "the page scan makes no progress");
    at = walked;
  }
  return runs;
}

}  // namespace

Result<PageRuns> scan_written(const Target& target, ScanBuffer& buffer, Rearm rearm) {
  return scan(target, buffer, rearm == Rearm::kYes ? kProtectMatching | kCheckAsync : kCheckAsync, kWritten);
}

Result<PageRuns> scan_present(const Target& target, ScanBuffer& buffer) {
  auto runs = scan(target, buffer, 0, kIsPresent);
  if (runs.ok()) return runs;
  if (runs.error().reason == "capture.target_gone") return runs;
  return select_entries(target, is_present_entry);  // an older kernel
}

Result<PageRuns> select_entries(const Target& target, bool (*test)(std::uint64_t entry)) {
  static constexpr std::size_t kChunk = 8192;
  std::vector<std::uint64_t> entries(std::min<std::uint64_t>(kChunk, target.range().pages()));
  const std::uint64_t base = target.range().address / kPageBytes;
  PageRuns runs;
  for (std::uint64_t page = 0; page < target.range().pages();) {
    std::uint64_t want = std::min<std::uint64_t>(entries.size(), target.range().pages() - page);
    ssize_t got = ::pread(target.pagemap(), entries.data(), want * 8, static_cast<off_t>((base + page) * 8));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return target.failure(errno, "read the pagemap");
    if (got < 8)
      return target.failure(ESRCH, "read the pagemap");  // an address space that is gone reads as empty
    std::uint64_t read = static_cast<std::uint64_t>(got) / 8;
    for (std::uint64_t i = 0; i < read; ++i) {
      if (test(entries[i])) append_run(runs, page + i, 1);
    }
    page += read;
  }
  return runs;
}

bool is_present_entry(std::uint64_t entry) {
  return (entry & kEntryPresent) != 0;
}
bool is_soft_dirty_entry(std::uint64_t entry) {
  return (entry & kEntrySoftDirty) != 0;
}

bool is_private_entry(std::uint64_t entry) {
  if ((entry & kEntryPresent) != 0) return (entry & kEntryFile) == 0;
  if ((entry & kEntrySwapped) == 0 || (entry & kEntryFile) != 0) return false;
  // What write protection leaves in place of an untouched page looks like a swapped one of type 31, which no
  // swap area has; its lowest offset bit says "write protected" and no other bit is set. The type is shown to
  // privileged readers only: without it every such page counts as private.
  constexpr std::uint64_t kMarkerType = 31;
  constexpr std::uint64_t kMarkerWriteProtect = 1;
  std::uint64_t type = entry & 0x1f;
  std::uint64_t offset = (entry >> 5) & ((std::uint64_t{1} << 50) - 1);
  return !(type == kMarkerType && offset == kMarkerWriteProtect);
}

}  // namespace space::node::capture
