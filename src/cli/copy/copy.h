// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies between the local machine and a session, in constant memory.
//
// Single files land whole or not at all, on both sides. Permission bits are kept; owners and times aren't.
// Links and special files in a tree are skipped and counted, never followed and never made: a link that a
// guest wrote is a way out of the target directory. Posture of downloads: hostile-guest (see local_tree.h).

#include <cstdint>
#include <string>

#include "cli/context.h"
#include "cli/copy/progress.h"

namespace space::cli::copy {

struct Summary {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t bytes = 0;
  std::uint64_t skipped = 0;
};

enum class Depth : unsigned char { kSingle, kRecursive };

// A tree deeper than this is refused: a guest could answer without end.
inline constexpr int kMaxDepth = 100;

// State of one copy. Resource type.
struct Copy {
  Context& context;
  std::string session;
  Progress progress;
  Summary summary{};

  // Says that `name` was left out.
  void skip(const std::string& name, const std::string& why);
};

// "-" as the local side is standard input or output. The target may be a directory that is there: the copy
// goes into it.
async::Task<Result<void>> upload(Copy& copy, std::string local, std::string remote, Depth depth);
async::Task<Result<void>> download(Copy& copy, std::string remote, std::string local, Depth depth);

// What the session says about a path; nothing when nothing is there.
struct RemoteInfo {
  std::string kind;
  std::uint64_t size = 0;
  unsigned mode = 0644;
};
async::Task<Result<std::optional<RemoteInfo>>> remote_stat(Context& context, const std::string& session,
                                                           const std::string& path);
RemoteInfo remote_info(const boost::json::value& file);

// Targets of the files API.
std::string files_target(const std::string& session, const std::string& operation,
                         const std::vector<std::pair<std::string, std::string>>& parameters);
std::string octal(unsigned mode);

}  // namespace space::cli::copy
