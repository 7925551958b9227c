// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the two forms of control groups have in common: directories with small files.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace space::node::slot::internal {

Result<void> write_value(const std::string& path, const std::string& value);
Result<std::uint64_t> read_number(const std::string& path);
// The number after `key` in a file of lines "key number"; 0 when there is none.
std::uint64_t read_count(const std::string& path, const std::string& key);
// mkdir; existing is fine.
Result<void> make_group(const std::string& path);
// rmdir, tried again for a moment while the kernel lets go of tasks that have just ended.
Result<void> remove_group(const std::string& path);
// Pids in `path`/cgroup.procs as this process sees them; none when the group isn't there.
Result<std::vector<pid_t>> processes(const std::string& path);
// Names of the directories in `path`; none when it isn't there.
Result<std::vector<std::string>> groups_in(const std::string& path);
// Repeats `kill` until `group` has no processes. Errors: node.cgroup_busy.
Result<void> until_empty(const std::string& group, std::chrono::milliseconds limit,
                         const std::function<void()>& kill);

}  // namespace space::node::slot::internal
