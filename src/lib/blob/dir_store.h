// SPDX-License-Identifier: Apache-2.0
#pragma once
// The object store in a directory.
//
//   <folder>/<name>            an object: written to tmp/, synced, linked under its name, folder synced
//   <folder>/<head>/<version>  one version of a head, 20 digits
//   tmp/                       objects that never got a name; see sweep_temporary()
//
// Several processes may share a directory. A version is created by link(2), which is exclusive. A number is
// cleared away once two newer ones exist, so a writer that slept through that could link it again. It looks
// once more after linking: with at most one newer version its own is new and stands, even if another has
// built on it already; with two or more it cannot tell, undoes nothing and says blob.overtaken (its file is
// below the newest and means nothing, or it was part of the row and others stand on it); without its
// predecessor and anything newer, the head was removed.

#include <memory>

#include "lib/blob/file_system.h"
#include "lib/blob/object_store.h"
#include "lib/os/random.h"

namespace space::blob {

// Both must outlive the store. Makes tmp/.
Result<std::unique_ptr<ObjectStore>> open_dir_store(FileSystem& files, os::Random& random);

// Removes what was left in tmp/ by processes that died: files last modified before `before`.
Result<void> sweep_temporary(FileSystem& files, WallTime before);

// Names as object_store.h demands, at most 255 bytes a part.
bool is_valid_name(std::string_view name);

}  // namespace space::blob
