// SPDX-License-Identifier: Apache-2.0
#include "control/meta/vfs.h"

#include <sqlite3.h>

#include <cstring>
#include <mutex>

namespace space::control::meta {
namespace {

int path_as_given(sqlite3_vfs*, const char* name, int size, char* out) {
  std::size_t length = std::strlen(name);
  if (length + 1 > static_cast<std::size_t>(size)) return SQLITE_CANTOPEN;
  std::memcpy(out, name, length + 1);
  return SQLITE_OK;
}

}  // namespace

Result<void> register_vfs() {
  // SQLite keeps a pointer to the structure for the life of the process, so the structure lives as long.
  static std::once_flag once;
  static sqlite3_vfs vfs;
  static int outcome = SQLITE_OK;
  std::call_once(once, [] {
    sqlite3_vfs* original = sqlite3_vfs_find(nullptr);
    if (original == nullptr) {
      outcome = SQLITE_ERROR;
      return;
    }
    vfs = *original;
    vfs.pNext = nullptr;
    vfs.zName = kVfsName;
    vfs.xFullPathname = path_as_given;
    outcome = sqlite3_vfs_register(&vfs, 0);
  });
  if (outcome != SQLITE_OK) return make_error(Code::kInternal, "meta.vfs", "SQLite offers no file system");
  return {};
}

}  // namespace space::control::meta
