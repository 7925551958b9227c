// SPDX-License-Identifier: Apache-2.0
#pragma once
// stat(2) as the host gets it. Blocking.

#include <sys/stat.h>

#include <string>

#include "api/guest_generated.h"
#include "lib/base/result.h"

namespace space::guest {

enum class FollowLinks : bool { kNo, kYes };

// `shown` goes into the message as the path. A link's target is read relative to `directory`.
guestapi::FileInfoT file_info(const struct stat& status, int directory, const std::string& name,
                              std::string shown);
// Errors: those of file_error().
Result<guestapi::FileInfoT> stat_path(const std::string& path, FollowLinks follow);

}  // namespace space::guest
