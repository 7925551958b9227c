// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which pages a sandbox has touched since its image was mapped: the list that prefetch replays at the next
// restore. Exact under write protection, where the kernel maps no neighbours of a faulting page.

#include "lib/base/result.h"
#include "node/capture/page_run.h"
#include "node/capture/target.h"

namespace space::node::capture {

inline constexpr std::uint64_t kMaxPrefetchPages = 512;  // 2 MiB: the longest range that is fetched at once

// Ascending ranges of at most kMaxPrefetchPages. While the guest runs it is a list of what was touched until
// some moment of the call. Errors: those of Target.
Result<std::vector<PageRun>> touched_pages(const Target& target);

}  // namespace space::node::capture
