// SPDX-License-Identifier: Apache-2.0
#include "lib/blob/fault/fault_file_system.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "lib/base/check.h"

namespace space::blob {
namespace {

constexpr std::size_t kSectorBytes = 512;

Error io_error(const std::string& what) {
  return make_error(Code::kInternal, "blob.io", what);
}
Error no_space() {
  return make_error(Code::kResourceExhausted, "blob.no_space", "injected: no space left");
}
Error not_found(const std::string& path) {
  return make_error(Code::kNotFound, "blob.not_found", "no such file: " + path);
}

std::string parent_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

class FaultOutput final : public OutputFile {
 public:
  FaultOutput(FaultFileSystem& files, std::shared_ptr<FaultFileSystem::Inode> inode)
      : files_(files), inode_(std::move(inode)) {}

  Result<std::size_t> write(ByteView data) override {
    std::lock_guard lock(files_.mutex_);
    bool partial = false;
    bool shorten = false;
    auto allowed = files_.step(&partial, &shorten);
    std::size_t take = data.size();
    if (shorten && take > 1) take = 1;
    if (partial) take = take == 0 ? 0 : files_.random_() % take;
    if (allowed.ok() && files_.capacity_ != FaultFileSystem::kUnlimited &&
        files_.used() + take > files_.capacity_)
      return no_space();
    if (allowed.ok() || partial)
      inode_->content.insert(inode_->content.end(), data.begin(), data.begin() + take);
    SPACE_CHECK_OK(allowed);
    return take;
  }
  Result<void> sync() override {
    std::lock_guard lock(files_.mutex_);
    SPACE_CHECK_OK(files_.step());
    inode_->synced = inode_->content;
    return {};
  }

 private:
  FaultFileSystem& files_;
  std::shared_ptr<FaultFileSystem::Inode> inode_;
};

class FaultInput final : public InputFile {
 public:
  FaultInput(FaultFileSystem& files, std::shared_ptr<FaultFileSystem::Inode> inode)
      : files_(files), inode_(std::move(inode)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) override {
    std::lock_guard lock(files_.mutex_);
    SPACE_CHECK_OK(files_.check_alive());
    ++files_.reads_;
    if (files_.failing_read_ != 0 && files_.reads_ == files_.failing_read_)
      return io_error("injected: read fails");
    const Bytes& content = inode_->content;
    if (offset >= content.size()) return std::size_t{0};
    std::size_t take = std::min<std::size_t>(out.size(), content.size() - offset);
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), take, out.begin());
    return take;
  }
  Result<std::uint64_t> size() override {
    std::lock_guard lock(files_.mutex_);
    SPACE_CHECK_OK(files_.check_alive());
    return std::uint64_t{inode_->content.size()};
  }

 private:
  FaultFileSystem& files_;
  std::shared_ptr<FaultFileSystem::Inode> inode_;
};

FaultFileSystem::FaultFileSystem(std::uint64_t seed, const Clock* clock) : random_(seed), clock_(clock) {
  auto root = std::make_shared<Inode>();
  root->is_directory = true;
  seen_[""] = root;
  durable_[""] = root;
}
FaultFileSystem::~FaultFileSystem() = default;

WallTime FaultFileSystem::now() const {
  return clock_ != nullptr ? clock_->wall() : WallTime(std::chrono::seconds(1'750'000'000));
}

void FaultFileSystem::inject(Fault fault) {
  std::lock_guard lock(mutex_);
  fault.step += steps_;
  fault_ = fault;
}
void FaultFileSystem::clear_faults() {
  std::lock_guard lock(mutex_);
  fault_.reset();
  failing_read_ = 0;
}
void FaultFileSystem::fail_read(std::uint64_t nth) {
  std::lock_guard lock(mutex_);
  failing_read_ = reads_ + nth;
}
std::uint64_t FaultFileSystem::steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
}
std::uint64_t FaultFileSystem::reads() const {
  std::lock_guard lock(mutex_);
  return reads_;
}
bool FaultFileSystem::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}
void FaultFileSystem::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

Result<void> FaultFileSystem::check_alive() const {
  if (crashed_) return io_error("injected: the machine is down");
  return {};
}

Result<void> FaultFileSystem::step(bool* partial, bool* shorten) {
  SPACE_CHECK_OK(check_alive());
  ++steps_;
  if (!fault_ || steps_ < fault_->step || (steps_ > fault_->step && !fault_->sticky)) return {};
  switch (fault_->kind) {
    case FaultKind::kNoSpace:
      if (partial != nullptr) *partial = true;
      return no_space();
    case FaultKind::kIo:
      return io_error("injected: input/output error");
    case FaultKind::kShortWrite:
      if (shorten != nullptr) *shorten = true;
      return {};
    case FaultKind::kCrash:
      crashed_ = true;
      if (partial != nullptr) *partial = true;
      return io_error("injected: power failure");
  }
  return {};
}

std::uint64_t FaultFileSystem::used() const {
  std::uint64_t sum = 0;
  for (const auto& [path, inode] : seen_) sum += inode->content.size();
  return sum;
}

void FaultFileSystem::crash_and_reboot() {
  std::lock_guard lock(mutex_);
  // Each unsynced name change reaches the platter or doesn't.
  Names after;
  auto coin = [&] { return (random_() & 1) != 0; };
  for (const auto& [path, inode] : durable_) {
    auto now = seen_.find(path);
    bool same = now != seen_.end() && now->second == inode;
    if (same || coin()) after[path] = inode;
  }
  for (const auto& [path, inode] : seen_) {
    auto before = durable_.find(path);
    bool same = before != durable_.end() && before->second == inode;
    if (!same && coin()) after[path] = inode;
  }
  // Nothing lives in a folder that is gone.
  for (auto it = after.begin(); it != after.end();) {
    bool orphan = !it->first.empty() && !after.contains(parent_of(it->first));
    it = orphan ? after.erase(it) : std::next(it);  // parents sort before children
  }
  std::unordered_map<Inode*, bool> done;
  for (auto& [path, inode] : after) {
    if (inode->is_directory || std::exchange(done[inode.get()], true)) continue;
    if (inode->content.size() > inode->synced.size()) {
      std::size_t keep = random_() % (inode->content.size() - inode->synced.size() + 1);
      Bytes content = inode->synced;
      content.insert(content.end(), inode->content.begin() + static_cast<std::ptrdiff_t>(content.size()),
                     inode->content.begin() + static_cast<std::ptrdiff_t>(content.size() + keep));
      if (keep > 0 && coin()) {  // a torn sector: old bytes of the disk where new ones should be
        std::size_t torn = std::min({keep, kSectorBytes, std::size_t{random_() % kSectorBytes + 1}});
        for (std::size_t i = content.size() - torn; i < content.size(); ++i)
          content[i] = std::byte(random_());
      }
      inode->content = std::move(content);
    } else {
      inode->content = inode->synced;
    }
    inode->synced = inode->content;
  }
  seen_ = after;
  durable_ = std::move(after);
  fault_.reset();
  failing_read_ = 0;
  crashed_ = false;
}

void FaultFileSystem::corrupt_for_test(const std::string& path, const std::function<void(Bytes&)>& change) {
  std::lock_guard lock(mutex_);
  auto found = seen_.find(path);
  SPACE_CHECK(found != seen_.end());
  change(found->second->content);
  found->second->synced = found->second->content;
}
void FaultFileSystem::remove_for_test(const std::string& path) {
  std::lock_guard lock(mutex_);
  seen_.erase(path);
  durable_.erase(path);
}
std::vector<std::string> FaultFileSystem::files_for_test() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, inode] : seen_) {
    if (!inode->is_directory) paths.push_back(path);
  }
  return paths;
}

std::shared_ptr<const FaultFileSystem::Image> FaultFileSystem::image_for_test() const {
  std::lock_guard lock(mutex_);
  auto image = std::make_shared<Image>();
  std::unordered_map<const Inode*, std::shared_ptr<Inode>> copies;
  auto copy = [&](const Names& names, Names& out) {
    for (const auto& [path, inode] : names) {
      auto& twin = copies[inode.get()];
      if (!twin) twin = std::make_shared<Inode>(*inode);
      out[path] = twin;
    }
  };
  copy(seen_, image->seen);
  copy(durable_, image->durable);
  return image;
}

void FaultFileSystem::restore_for_test(const Image& image) {
  std::lock_guard lock(mutex_);
  std::unordered_map<const Inode*, std::shared_ptr<Inode>> copies;
  auto copy = [&](const Names& names, Names& out) {
    out.clear();
    for (const auto& [path, inode] : names) {
      auto& twin = copies[inode.get()];
      if (!twin) twin = std::make_shared<Inode>(*inode);
      out[path] = twin;
    }
  };
  copy(image.seen, seen_);
  copy(image.durable, durable_);
  fault_.reset();
  failing_read_ = 0;
  crashed_ = false;
}

Result<std::unique_ptr<OutputFile>> FaultFileSystem::create(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  if (!seen_.contains(parent_of(path))) return not_found(path);
  if (seen_.contains(path)) return make_error(Code::kAlreadyExists, "blob.exists", path + " exists");
  auto inode = std::make_shared<Inode>();
  inode->modified = now();
  seen_[path] = inode;
  return std::unique_ptr<OutputFile>(std::make_unique<FaultOutput>(*this, std::move(inode)));
}

Result<std::unique_ptr<InputFile>> FaultFileSystem::open(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(check_alive());
  auto found = seen_.find(path);
  if (found == seen_.end()) return not_found(path);
  if (found->second->is_directory) return io_error(path + " is a directory");
  return std::unique_ptr<InputFile>(std::make_unique<FaultInput>(*this, found->second));
}

Result<void> FaultFileSystem::link(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  auto found = seen_.find(from);
  if (found == seen_.end() || !seen_.contains(parent_of(to))) return not_found(from);
  if (seen_.contains(to)) return make_error(Code::kAlreadyExists, "blob.exists", to + " exists");
  seen_[to] = found->second;
  return {};
}

Result<void> FaultFileSystem::unlink(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  auto found = seen_.find(path);
  if (found == seen_.end()) return not_found(path);
  if (found->second->is_directory) return io_error(path + " is a directory");
  seen_.erase(found);
  return {};
}

Result<void> FaultFileSystem::make_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  if (!seen_.contains(parent_of(path))) return not_found(path);
  auto& inode = seen_[path];
  if (inode) return {};
  inode = std::make_shared<Inode>();
  inode->is_directory = true;
  inode->modified = now();
  return {};
}

Result<void> FaultFileSystem::remove_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  auto found = seen_.find(path);
  if (found == seen_.end()) return not_found(path);
  auto child = seen_.lower_bound(path + "/");
  if (child != seen_.end() && child->first.starts_with(path + "/")) return io_error(path + " is not empty");
  seen_.erase(found);
  return {};
}

Result<void> FaultFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(step());
  auto in_folder = [&](const std::string& entry) { return !entry.empty() && parent_of(entry) == path; };
  std::string prefix = path.empty() ? "" : path + "/";
  for (auto it = durable_.lower_bound(prefix); it != durable_.end() && it->first.starts_with(prefix);) {
    it = in_folder(it->first) && !seen_.contains(it->first) ? durable_.erase(it) : std::next(it);
  }
  for (auto it = seen_.lower_bound(prefix); it != seen_.end() && it->first.starts_with(prefix); ++it) {
    if (in_folder(it->first)) durable_[it->first] = it->second;
  }
  return {};
}

Result<std::vector<DirectoryEntry>> FaultFileSystem::list(const std::string& path) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(check_alive());
  if (!seen_.contains(path)) return not_found(path);
  std::vector<DirectoryEntry> entries;
  std::string prefix = path.empty() ? "" : path + "/";
  for (auto it = seen_.lower_bound(prefix); it != seen_.end() && it->first.starts_with(prefix); ++it) {
    std::string name = it->first.substr(prefix.size());
    if (name.empty() || name.find('/') != std::string::npos) continue;
    entries.push_back({name, it->second->is_directory, it->second->content.size(), it->second->modified});
  }
  return entries;
}

Result<std::uint64_t> FaultFileSystem::free_bytes() {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(check_alive());
  std::uint64_t taken = used();
  return taken > capacity_ ? 0 : capacity_ - taken;
}

}  // namespace space::blob
