// SPDX-License-Identifier: Apache-2.0
#pragma once
// The root file system of a template as a directory: made from packages, given the recipe's files and steps,
// trimmed, and brought to a state in which the same packages give the same bytes.
//
// Called in this order by build(). All of it needs root.

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "node/template/package_cache.h"
#include "node/template/recipe.h"

namespace space::node::tmpl {

// 2025-01-01T00:00:00Z: the time of everything that a build makes itself.
inline constexpr std::int64_t kFixedTime = 1'735'689'600;

// Debian packages into the new directory `root`, by mmdebstrap. `work` is a directory for configuration
// files.
Result<void> install_packages(const Recipe& recipe, const PackageCache& cache, const std::string& work,
                              const std::string& root, Reporter& reporter);

// The recipe's files, then its steps (chroot, with network, /proc and /dev).
// Errors: invalid_argument template.bad_file when a path leads through a link out of the root;
// template.tool_failed.
Result<void> apply_recipe(const Recipe& recipe, const std::string& root, Reporter& reporter);

// Removes what belongs to the machine that built it or is only weight: apt lists and caches, logs, temporary
// files, documentation, machine id, random seed, host name, resolver configuration.
Result<void> trim(const std::string& root);

// Sets every time stamp that is not before `build_started` (seconds since the epoch) to kFixedTime, access
// times to modification times, and the days in /etc/shadow. Returns the number of inodes in the tree. Time
// stamps that came with a package stay: Python's compiled files name them.
Result<std::uint64_t> fix_times(const std::string& root, std::int64_t build_started);

}  // namespace space::node::tmpl
