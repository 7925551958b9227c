// SPDX-License-Identifier: Apache-2.0
#pragma once
// The disk as the `dir` driver sees it, and the one place where faults are injected
// (fault/fault_file_system.h).
//
// Every step that can fail or be cut by a power failure is a call of its own: create, write, sync, link,
// unlink, sync of a directory. Paths are relative to the root that the implementation was given. Errors are
// blob.* by errno: blob.not_found, blob.exists, blob.no_space, blob.io. Thread-safe; files belong to one
// thread.

#include <memory>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace space::blob {

class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Appends; may take fewer bytes than given, at least one.
  virtual Result<std::size_t> write(ByteView data) = 0;
  virtual Result<void> sync() = 0;
};

class InputFile {
 public:
  virtual ~InputFile() = default;
  // May give fewer bytes than asked; 0 at the end.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<std::uint64_t> size() = 0;
};

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  std::uint64_t bytes = 0;
  WallTime modified{};
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;  // exclusively
  virtual Result<std::unique_ptr<InputFile>> open(const std::string& path) = 0;
  virtual Result<void> link(const std::string& from, const std::string& to) = 0;  // exclusively
  virtual Result<void> unlink(const std::string& path) = 0;
  virtual Result<void> make_directory(const std::string& path) = 0;    // existing is fine
  virtual Result<void> remove_directory(const std::string& path) = 0;  // blob.io when not empty
  virtual Result<void> sync_directory(const std::string& path) = 0;
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;  // sorted by name
  virtual Result<std::uint64_t> free_bytes() = 0;
};

// Files below `root`, which must exist and outlives everything.
std::unique_ptr<FileSystem> open_real_file_system(std::string root);

}  // namespace space::blob
