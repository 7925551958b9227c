// SPDX-License-Identifier: Apache-2.0
// capture-bench [GUEST_MIB] [DIRTY_MIB]: what the memory side of a snapshot costs here. One JSON object on
// one line. A child maps GUEST_MIB (default 1024) privately and writes to DIRTY_MIB (64) of them, scattered
// in runs of eight pages and as single pages; memcpy of the same pages in one process, in the same run, is
// the peer.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "node/capture/capture_arena.h"
#include "node/capture/dirty_tracker.h"
#include "node/capture/internal/probe_child.h"
#include "node/capture/page_copier.h"
#include "node/capture/present_pages.h"
#include "node/capture/zero_page.h"

namespace {

using namespace space::node::capture;  // NOLINT: a program of one file

constexpr int kRepeats = 15;

double milliseconds(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}
// The best of several: on a shared machine the others measure its other users. The peer is measured the same
// way.
double repeated(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) times.push_back(milliseconds(work));
  return *std::min_element(times.begin(), times.end());
}
// Processor time of this process, for work of one thread: what a machine that is busy with other things
// hides.
double repeated_cpu(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    timespec begin{};
    timespec end{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    work();
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    times.push_back(static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 +
                    static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e6);
  }
  return *std::min_element(times.begin(), times.end());
}
template <class T>
T must(space::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "capture-bench: %s\n", result.error().describe().c_str());
  std::exit(1);
}

struct Copies {
  double one_thread, one_thread_cpu, two_threads, memcpy_gb_s, memcpy_cpu_gb_s;
};

Copies measure(const Target& target, const std::vector<PagePlacement>& placements, std::byte* to) {
  double bytes = static_cast<double>(placements.size() * kPageBytes);
  space::SystemClock clock;
  PageCopier one(target, clock, 1);
  PageCopier two(target, clock, 2);
  Copies out{};
  out.one_thread = bytes / 1e6 / repeated([&] { must(one.copy(placements, to)); });
  out.two_threads = bytes / 1e6 / repeated([&] { must(two.copy(placements, to)); });
  out.one_thread_cpu = bytes / 1e6 / repeated_cpu([&] { must(one.copy(placements, to)); });
  std::uint64_t span = placements.back().page + 1;
  auto* from = static_cast<std::byte*>(
      ::mmap(nullptr, span * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(from, span * kPageBytes, MADV_NOHUGEPAGE);
  for (const auto& p : placements) std::memset(from + p.page * kPageBytes, 1, kPageBytes);
  out.memcpy_gb_s = bytes / 1e6 / repeated([&] {
                      for (const auto& p : placements)
                        std::memcpy(to + p.slot * kPageBytes, from + p.page * kPageBytes, kPageBytes);
                    });
  out.memcpy_cpu_gb_s = bytes / 1e6 / repeated_cpu([&] {
                          for (const auto& p : placements)
                            std::memcpy(to + p.slot * kPageBytes, from + p.page * kPageBytes, kPageBytes);
                        });
  ::munmap(from, span * kPageBytes);
  return out;
}

std::vector<PagePlacement> placements_of(const PageRuns& runs) {
  std::vector<PagePlacement> out;
  for (const auto& run : runs) {
    for (auto page = run.first; page < run.end(); ++page) out.push_back({page, out.size()});
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t guest_pages = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024) * 256;
  std::uint64_t dirty_pages = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 64) * 256;
  if (dirty_pages == 0 || dirty_pages * 4 > guest_pages) {
    std::fprintf(stderr, "usage: capture-bench [GUEST_MIB] [DIRTY_MIB], at most a quarter of it dirty\n");
    return 2;
  }
  space::os::Fd image(::memfd_create("image", MFD_CLOEXEC));
  if (::ftruncate(image.get(), static_cast<off_t>(guest_pages * kPageBytes)) != 0) return 1;
  auto child = must(internal::ProbeChild::start(image.get(), guest_pages, internal::Arming::kWriteProtect));
  auto target = must(Target::open(child.pid(), child.range()));
  auto tracker = must(open_tracker(TrackerKind::kWriteProtect, target));
  double gib = static_cast<double>(guest_pages) / 262144.0;

  double idle_scan = repeated([&] { must(tracker->collect_and_rearm()); });
  auto dirty = [&](std::uint64_t run, std::uint64_t stride) {
    std::uint64_t done = 0;
    for (std::uint64_t at = 0; done < dirty_pages; at += stride) {
      for (std::uint64_t i = 0; i < run && done < dirty_pages; ++i, ++done) {
        if (!child.store(at + i, 1).ok()) std::exit(1);
      }
    }
  };
  auto arena = must(CaptureArena::create(dirty_pages * kPageBytes));
  double reserve = milliseconds([&] {
    if (!arena.reserve(dirty_pages * kPageBytes).ok()) std::exit(1);
  });

  PageRuns written;
  dirty(8, 32);
  double peek = repeated([&] { must(tracker->peek()); });
  double rearm = milliseconds([&] { written = must(tracker->collect_and_rearm()); });
  auto in_runs = placements_of(written);
  Copies runs = measure(target, in_runs, arena.data());

  dirty(1, 4);
  auto single = placements_of(must(tracker->collect_and_rearm()));
  Copies singles = measure(target, single, arena.data());

  std::uint64_t zeros = 0;
  double zero_check = repeated([&] {
    for (std::uint64_t i = 0; i < dirty_pages; ++i)
      zeros += is_zero_page(arena.data() + i * kPageBytes) ? 1 : 0;
  });
  double present = repeated([&] { must(touched_pages(target)); });
  auto private_pages = must(open_tracker(TrackerKind::kPrivatePages, target));
  double private_scan = repeated([&] { must(private_pages->peek()); });

  std::printf(
      "{\"guest_mib\":%lu,\"dirty_mib\":%lu,\"tracker\":\"%s\",\"idle_scan_ms_per_gib\":%.3f,\"peek_ms\":%."
      "3f,"
      "\"scan_rearm_ms\":%.3f,\"private_scan_ms\":%.3f,\"present_scan_ms\":%.3f,\"reserve_ms\":%.2f,"
      "\"copy_runs_gb_s\":%.2f,\"copy_runs_2_threads_gb_s\":%.2f,\"memcpy_runs_gb_s\":%.2f,"
      "\"copy_single_gb_s\":%.2f,\"copy_single_2_threads_gb_s\":%.2f,\"memcpy_single_gb_s\":%.2f,"
      "\"copy_runs_cpu_gb_s\":%.2f,\"memcpy_runs_cpu_gb_s\":%.2f,\"copy_single_cpu_gb_s\":%.2f,"
      "\"memcpy_single_cpu_gb_s\":%.2f,"
      "\"zero_check_ms\":%.2f,\"zero_pages\":%lu}\n",
      static_cast<unsigned long>(guest_pages / 256), static_cast<unsigned long>(dirty_pages / 256),
      std::string(to_string(tracker->kind())).c_str(), idle_scan / gib, peek, rearm, private_scan, present,
      reserve, runs.one_thread, runs.two_threads, runs.memcpy_gb_s, singles.one_thread, singles.two_threads,
      singles.memcpy_gb_s, runs.one_thread_cpu, runs.memcpy_cpu_gb_s, singles.one_thread_cpu,
      singles.memcpy_cpu_gb_s, zero_check, static_cast<unsigned long>(zeros / kRepeats));
  return 0;
}
