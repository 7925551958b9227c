// SPDX-License-Identifier: Apache-2.0
#include "node/capture/present_pages.h"

#include "node/capture/pagemap.h"

namespace space::node::capture {

Result<std::vector<PageRun>> touched_pages(const Target& target) {
  ScanBuffer buffer;
  SPACE_TRY(PageRuns present, scan_present(target, buffer));
  return split_runs(present, kMaxPrefetchPages);
}

}  // namespace space::node::capture
