// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file system in memory that fails on command and forgets at a crash what was not synced. For tests only.
//
// It keeps two states. What programs see: contents and names as written. What the platter holds: contents as
// of the last sync() of the file, names as of the last sync_directory() of the folder. crash_and_reboot()
// throws the first away. In between, of everything unsynced a random part survives, as on real disks: each
// name change on its own, and of each file a random prefix of the bytes after the synced ones, the last
// sector of it torn.
//
// Steps (create, write, sync, link, unlink, mkdir, rmdir, sync_directory) are counted from 1; reads are
// counted apart. A Fault hits the n-th step from now. Thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "lib/blob/file_system.h"

namespace space::blob {

enum class FaultKind : std::uint8_t {
  kNoSpace,     // the step fails with blob.no_space; a write may have taken a part first
  kIo,          // the step fails with blob.io, once
  kShortWrite,  // a write takes one byte, or the step succeeds
  kCrash,       // this step (a write in part) and all later calls fail until crash_and_reboot()
};

struct Fault {
  FaultKind kind{};
  std::uint64_t step = 1;  // 1 = the next step
  bool sticky = false;     // goes on failing until cleared (a full disk)
};

class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(std::uint64_t seed, const Clock* clock = nullptr);
  ~FaultFileSystem() override;

  void inject(Fault fault);
  void clear_faults();
  // The n-th read from now fails with blob.io, once.
  void fail_read(std::uint64_t nth);
  // Steps so far.
  [[nodiscard]] std::uint64_t steps() const;
  [[nodiscard]] std::uint64_t reads() const;
  [[nodiscard]] bool crashed() const;
  // Power comes back: only what the platter holds is there.
  void crash_and_reboot();
  void set_capacity(std::uint64_t bytes);

  // Behind everybody's back, as rot or a thief would: durable at once. `change` may resize.
  void corrupt_for_test(const std::string& path, const std::function<void(Bytes&)>& change);
  void remove_for_test(const std::string& path);
  // All file paths, sorted.
  [[nodiscard]] std::vector<std::string> files_for_test() const;
  // Whole state, to try many faults from one starting point. Only while nothing is open.
  class Image;
  [[nodiscard]] std::shared_ptr<const Image> image_for_test() const;
  void restore_for_test(const Image& image);

  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override;
  Result<std::unique_ptr<InputFile>> open(const std::string& path) override;
  Result<void> link(const std::string& from, const std::string& to) override;
  Result<void> unlink(const std::string& path) override;
  Result<void> make_directory(const std::string& path) override;
  Result<void> remove_directory(const std::string& path) override;
  Result<void> sync_directory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override;
  Result<std::uint64_t> free_bytes() override;

 private:
  friend class FaultOutput;
  friend class FaultInput;
  struct Inode {
    bool is_directory = false;
    Bytes content;  // as seen
    Bytes synced;   // on the platter
    WallTime modified{};
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // full path -> inode; "" is the root

  // Counts a step; an error when it is to fail. `partial` is set when a write should take a part first.
  Result<void> step(bool* partial = nullptr, bool* shorten = nullptr);
  Result<void> check_alive() const;
  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] WallTime now() const;

  static constexpr std::uint64_t kUnlimited = 1ull << 40;

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  const Clock* clock_;
  Names seen_;
  Names durable_;
  std::optional<Fault> fault_;
  std::uint64_t steps_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t failing_read_ = 0;
  std::uint64_t capacity_ = kUnlimited;
  bool crashed_ = false;
};

class FaultFileSystem::Image {
 private:
  friend class FaultFileSystem;
  Names seen;
  Names durable;
};

}  // namespace space::blob
