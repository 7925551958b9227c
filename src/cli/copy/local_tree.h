// SPDX-License-Identifier: Apache-2.0
#pragma once
// The local side of a copy, confined below one directory.
//
// The user chose the root (links in its path are followed); every name below it comes from a guest and is
// hostile. So a name is one plain component, every step is an openat() that follows no link, and a file
// appears under its name only when it is complete: it is written without a name (or with a temporary one) and
// renamed over what was there. Errors: cli.hostile_name, os.file.

#include <sys/types.h>

#include <string>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"

namespace space::cli::copy {

// A file on its way into a directory. Resource type; without commit() nothing is left of it.
class NewFile {
 public:
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Result<void> write(ByteView data);
  // Gives it `mode` (permission bits; set-id bits are dropped) and its name.
  Result<void> commit(mode_t mode);

 private:
  friend class LocalDirectory;
  NewFile(os::Fd directory, os::Fd file, std::string name, std::string temporary, bool linked);
  os::Fd directory_;
  os::Fd file_;
  std::string name_;
  std::string temporary_;
  bool linked_;  // the temporary name exists
};

// Resource type.
class LocalDirectory {
 public:
  // The root: an existing directory.
  static Result<LocalDirectory> open(const std::string& path);

  // A directory in this one, made when it isn't there. A link or a file of that name is an error.
  [[nodiscard]] Result<LocalDirectory> enter(const std::string& name) const;
  [[nodiscard]] Result<NewFile> create(const std::string& name, os::Random& random) const;
  // Permission bits of the directory itself; the owner's stay, so that it can be filled.
  [[nodiscard]] Result<void> set_mode(mode_t mode) const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit LocalDirectory(os::Fd fd) : fd_(std::move(fd)) {}
  os::Fd fd_;
};

}  // namespace space::cli::copy
