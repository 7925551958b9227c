// SPDX-License-Identifier: Apache-2.0
#pragma once
// Does the tracker tell the truth? Hashes all of the guest's memory, compares with what the last snapshot has
// stored, and asks about each difference whether the tracker reports the page as written. A page that differs
// and is not reported is a write that was missed: the next snapshot would be wrong.
//
// A running guest may be checked: what differs there is a *suspect* only, since data of a device may arrive
// between our look at the page and at the record. confirm() at the next stop tells. About 1 s per GiB,
// hashing included; reading an untouched page faults it in in the VMM.
//
// Resource type. Blocking; use no other call of the ledger meanwhile. Errors: those of PageCopier and
// DirtyTracker, and whatever the caller's PageDigests gives.

#include <array>
#include <cstddef>
#include <span>
#include <stop_token>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "node/capture/dirty_tracker.h"
#include "node/capture/page_copier.h"

namespace space::node::capture {

using PageDigest = std::array<std::byte, 32>;

// The caller's knowledge: the keyed hash of a page and what the last committed snapshot has for it.
class PageDigests {
 public:
  virtual ~PageDigests() = default;
  // `page` is kPageBytes long.
  virtual PageDigest of_content(ByteView page) const = 0;
  // Digests of pages first, first + 1, … as stored.
  virtual Result<void> stored(std::uint64_t first, std::span<PageDigest> out) const = 0;
};

struct SelfCheckReport {
  std::uint64_t checked_pages = 0;
  std::uint64_t changed_pages = 0;  // differ from the store
  PageRuns unreported;              // differ, and the tracker knows nothing of it
};

class SelfCheck {
 public:
  // All must outlive the check.
  SelfCheck(const Target& target, DirtyTracker& tracker, PageCopier& copier, const PageDigests& digests)
      : target_(target), tracker_(tracker), copier_(copier), digests_(digests) {}

  // Every page of the range; `known` are written pages that the kernel no longer reports since they were
  // collected and not committed. With a stopped guest the unreported pages are proof, else suspects.
  Result<SelfCheckReport> check_all(std::span<const PageRun> known = {}, const std::stop_token& stop = {});
  // Looks at `suspects` only. With a stopped guest what remains is proof.
  Result<SelfCheckReport> confirm(std::span<const PageRun> suspects, std::span<const PageRun> known = {});

 private:
  Result<SelfCheckReport> check(std::span<const PageRun> pages, std::span<const PageRun> known,
                                const std::stop_token& stop);

  const Target& target_;
  DirtyTracker& tracker_;
  PageCopier& copier_;
  const PageDigests& digests_;
};

}  // namespace space::node::capture
