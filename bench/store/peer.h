// SPDX-License-Identifier: Apache-2.0
#pragma once
// restic, if it is installed, on the same image: backup into a fresh repository and restore from it.

#include <optional>
#include <string>

#include "lib/base/result.h"

namespace space::bench {

struct PeerTimes {
  double backup_s = 0;
  double restore_s = 0;
  double startup_s = 0;  // what a run that does nothing takes; to be taken off, in restic's favour
  std::uint64_t stored_bytes = 0;
};
// None when restic isn't there. `folder` is empty and may be filled; `file` is the image.
Result<std::optional<PeerTimes>> time_restic(const std::string& folder, const std::string& file);

}  // namespace space::bench
