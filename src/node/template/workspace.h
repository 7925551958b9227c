// SPDX-License-Identifier: Apache-2.0
#pragma once
// The places on disk that one build uses: its lock, its temporary directory beside the template, the package
// cache.

#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "node/template/progress.h"

namespace space::node::tmpl {

// An exclusive flock(2) on a file, made when absent. Resource type; released with its descriptor.
// Blocks until it is free, saying `waiting` first when it isn't.
Result<os::Fd> lock_file(const std::string& path, Reporter& reporter, const std::string& waiting);

// A directory `.building-<name>-XXXXXX` beside the template `out_dir`, removed with everything in it unless
// taken. What a killed build left there is removed first: the caller holds the template's lock. Resource
// type.
class BuildDirectory {
 public:
  static Result<BuildDirectory> make(const std::string& out_dir);
  BuildDirectory(BuildDirectory&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  BuildDirectory& operator=(BuildDirectory&&) = delete;
  ~BuildDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit BuildDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Puts the finished directory `from` in the place of `to` in one step: a reader of `to` sees the old one or
// the new one, whole. `from` and `to` share a parent directory or at least a file system. The old one is
// removed afterwards. Files of the old one that a running VMM holds open or mapped stay valid for it.
Result<void> publish_directory(const std::string& from, const std::string& to);

// The directory a path is in, and its last part; trailing slashes don't count.
std::string parent_of(const std::string& path);
std::string leaf_of(const std::string& path);
// Absolute form of `path`, against the working directory.
Result<std::string> absolute(const std::string& path);

}  // namespace space::node::tmpl
