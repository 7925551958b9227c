// SPDX-License-Identifier: Apache-2.0
#pragma once
// The directory that every jail of a node sees as "/": a VMM, the libraries it loads, its firmware, and empty
// places for what is mounted there. Made once and named after its content; a changed package gives another
// one.
//
// Blocking (copies tens of megabytes the first time). Errors: node.jail_root, node.program_missing.

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace space::node::slot {

struct JailRootContents {
  std::vector<std::string> programs;     // with everything that the dynamic linker loads for them
  std::vector<std::string> files;        // as they are, at the same path
  std::vector<std::string> mount_files;  // empty files
  std::vector<std::string> mount_dirs;   // empty directories
};

struct JailRoot {
  std::string path;
  std::vector<std::string> library_dirs;  // for LD_LIBRARY_PATH: the jail has no cache file of the linker
};

// Absolute paths in the output of `ld.so --list PROGRAM`, the linker's own included. Pure.
std::vector<std::string> parse_library_list(std::string_view output);

// Finds or makes `<node_dir>/jailroot-<hash>`.
Result<JailRoot> prepare_jail_root(const std::string& node_dir, const JailRootContents& contents);

// Removes the roots in `node_dir` other than `keep`, and unfinished ones. A root that a jail uses must be
// kept: removing a mount point detaches what is mounted there, in every namespace.
Result<void> remove_other_jail_roots(const std::string& node_dir, const std::string& keep);

}  // namespace space::node::slot
