// SPDX-License-Identifier: Apache-2.0
#pragma once
// A SQLite VFS that opens paths as they are given. The default one resolves symbolic links first, and so
// turns /proc/self/fd/N/meta.db, the only way to a directory that this process holds but can't reach by name,
// into a path that it may not open.

#include "lib/base/result.h"

namespace space::control::meta {

inline constexpr const char* kVfsName = "space-as-given";

// Registers the VFS once per process; later calls do nothing. Thread-safe. Errors: meta.vfs.
Result<void> register_vfs();

}  // namespace space::control::meta
