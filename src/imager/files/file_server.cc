// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 35
#include "imager/files/file_server.h"

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/falloc.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "imager/files/request_guard.h"
#include "lib/base/check.h"

namespace space::imager::files {
namespace {

constexpr double kForEver = 86'400.0;
constexpr mode_t kImageMode = S_IFREG | 0444;
constexpr mode_t kDiskMode = S_IFREG | 0666;  // who may reach the file is decided by who is handed it

struct File {
  std::string name;
  std::shared_ptr<store::OpenSnapshot> image;  // of a memory image
  std::shared_ptr<Disk> disk;                  // of a bound disk
  std::uint64_t bytes = 0;
  bool is_image = false;
  bool removed = false;
};

class Server final : public FileServer {
 public:
  Server(std::function<void(const FileError&)> on_error, FileServerOptions options)
      : options_(options),
        on_error_(std::move(on_error)),
        guard_(options.request_deadline, [this](std::uint64_t inode) {
          report(inode, make_error(Code::kDeadlineExceeded, "imager.request_deadline",
                                   "a read or write took too long"));
        }) {}
  ~Server() override;
  Result<void> run(os::Fd fuse);

  Result<void> add_image(const std::string& id, std::shared_ptr<store::OpenSnapshot> snapshot) override;
  Result<void> add_disk(const std::string& id, std::uint64_t bytes) override;
  Result<void> bind_disk(const std::string& id, std::shared_ptr<Disk> disk) override;
  void remove(const std::string& name) override;
  [[nodiscard]] std::uint64_t image_bytes_read() const override { return image_bytes_.load(); }

  // What the callbacks need.
  std::optional<File> find(std::uint64_t inode);
  std::optional<std::pair<std::uint64_t, File>> find_name(const std::string& name);
  void report(std::uint64_t inode, Error why);
  RequestGuard& guard() { return guard_; }
  void count_image_bytes(std::size_t bytes) { image_bytes_ += bytes; }
  [[nodiscard]] const FileServerOptions& options() const { return options_; }

 private:
  Result<void> add(File file);

  FileServerOptions options_;
  std::function<void(const FileError&)> on_error_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, File> files_;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::uint64_t next_inode_ = 2;  // 1 is the root
  std::atomic<std::uint64_t> image_bytes_{0};
  RequestGuard guard_;
  fuse_session* session_ = nullptr;
  os::Fd fuse_;
  std::thread loop_;
};

Server& server(fuse_req_t request) {
  return *static_cast<Server*>(fuse_req_userdata(request));
}

struct stat attributes(std::uint64_t inode, const File& file) {
  struct stat s{};
  s.st_ino = inode;
  s.st_mode = file.is_image ? kImageMode : kDiskMode;
  s.st_nlink = 1;
  s.st_size = static_cast<off_t>(file.bytes);
  s.st_blksize = 4096;
  s.st_blocks = static_cast<blkcnt_t>(file.bytes / 512);
  return s;
}

struct stat root_attributes() {
  struct stat s{};
  s.st_ino = FUSE_ROOT_ID;
  s.st_mode = S_IFDIR | 0711;
  s.st_nlink = 2;
  return s;
}

void on_init(void* data, fuse_conn_info* connection) {
  auto* self = static_cast<Server*>(data);
  connection->max_readahead = self->options().max_readahead_bytes;
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  auto found = parent == FUSE_ROOT_ID ? server(request).find_name(name) : std::nullopt;
  if (!found) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = found->first;
  entry.attr = attributes(found->first, found->second);
  entry.attr_timeout = found->second.is_image ? kForEver : 0;
  entry.entry_timeout = 0;  // a name goes when its slot goes
  fuse_reply_entry(request, &entry);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  if (inode == FUSE_ROOT_ID) {
    struct stat s = root_attributes();
    fuse_reply_attr(request, &s, kForEver);
    return;
  }
  auto file = server(request).find(inode);
  if (!file) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  struct stat s = attributes(inode, *file);
  fuse_reply_attr(request, &s, file->is_image ? kForEver : 0);
}

void on_setattr(fuse_req_t request, fuse_ino_t inode, struct stat* wanted, int which, fuse_file_info* info) {
  // Times may be set and are forgotten; a size may not be changed from outside.
  auto file = server(request).find(inode);
  if (!file ||
      ((which & FUSE_SET_ATTR_SIZE) != 0 && static_cast<std::uint64_t>(wanted->st_size) != file->bytes)) {
    fuse_reply_err(request, file ? EPERM : ENOENT);
    return;
  }
  on_getattr(request, inode, info);
}

void on_open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  auto file = server(request).find(inode);
  if (!file) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  // An image may be opened for writing, since QEMU does so before it maps privately; a write is refused.
  info->keep_cache = file->is_image ? 1 : 0;
  info->direct_io = file->is_image ? 0 : 1;
  fuse_reply_open(request, info);
}

void on_read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info*) {
  Server& self = server(request);
  auto reply = self.guard().begin(request, inode);
  auto file = self.find(inode);
  if (!file || file->removed) return reply->fail(EIO);
  auto at = static_cast<std::uint64_t>(offset);
  if (offset < 0 || at >= file->bytes) return reply->data({});
  size = std::min<std::size_t>(size, file->bytes - at);
  Bytes out(size);
  if (file->is_image) {
    auto& map = file->image->map(store::MapKind::kMemory);
    // The kernel asks in pages; anything else is rounded outward.
    std::uint64_t first = at / store::kPageBytes;
    std::uint64_t last = (at + size + store::kPageBytes - 1) / store::kPageBytes;
    Bytes pages;
    bool whole = at % store::kPageBytes == 0 && size % store::kPageBytes == 0;
    if (!whole) pages.resize((last - first) * store::kPageBytes);
    auto outcome = map.read(first, whole ? std::span<std::byte>(out) : std::span<std::byte>(pages));
    if (!outcome.ok()) {
      self.report(inode, std::move(outcome).error());
      return reply->fail(EIO);
    }
    if (!whole) std::memcpy(out.data(), pages.data() + at % store::kPageBytes, size);
    self.count_image_bytes(size);
  } else if (file->disk) {
    if (auto outcome = file->disk->read(at, out); !outcome.ok()) {
      self.report(inode, std::move(outcome).error());
      return reply->fail(EIO);
    }
  }
  reply->data(out);
}

void on_write(fuse_req_t request, fuse_ino_t inode, const char* data, std::size_t size, off_t offset,
              fuse_file_info*) {
  Server& self = server(request);
  auto reply = self.guard().begin(request, inode);
  auto file = self.find(inode);
  if (!file || file->removed) return reply->fail(EIO);
  if (file->is_image || !file->disk || offset < 0) return reply->fail(EPERM);
  auto outcome = file->disk->write(static_cast<std::uint64_t>(offset), as_bytes({data, size}));
  if (!outcome.ok()) {
    if (outcome.error().reason == "imager.out_of_range") return reply->fail(ENOSPC);
    int code = outcome.error().code == Code::kResourceExhausted ? ENOSPC : EIO;
    self.report(inode, std::move(outcome).error());
    return reply->fail(code);
  }
  reply->written(size);
}

void on_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t length,
                  fuse_file_info*) {
  Server& self = server(request);
  auto reply = self.guard().begin(request, inode);
  auto file = self.find(inode);
  if (!file || file->removed) return reply->fail(EIO);
  if (file->is_image || !file->disk) return reply->fail(EPERM);
  bool zeros = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
  if (!zeros || (mode & ~(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)) != 0)
    return reply->fail(EOPNOTSUPP);
  if (offset < 0 || length <= 0) return reply->fail(EINVAL);
  auto outcome =
      file->disk->write_zeros(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length));
  if (outcome.ok()) return reply->fail(0);
  if (outcome.error().reason == "imager.out_of_range") return reply->fail(EINVAL);
  self.report(inode, std::move(outcome).error());
  reply->fail(EIO);
}

// Ordering is all that a flush can give: the live layer's key dies with this process (see the operator
// guide).
void on_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  fuse_reply_err(request, 0);
}
void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(request, 0);
}
void on_flush(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(request, 0);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = on_init;
  ops.lookup = on_lookup;
  ops.getattr = on_getattr;
  ops.setattr = on_setattr;
  ops.open = on_open;
  ops.read = on_read;
  ops.write = on_write;
  ops.flush = on_flush;
  ops.release = on_release;
  ops.fsync = on_fsync;
  ops.fallocate = on_fallocate;
  return ops;
}

Result<void> Server::run(os::Fd fuse) {
  static const fuse_lowlevel_ops kOperations = operations();
  fuse_ = std::move(fuse);
  char program[] = "space-imager";
  char* arguments[] = {program, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, arguments);
  session_ = fuse_session_new(&args, &kOperations, sizeof kOperations, this);
  if (session_ == nullptr) return make_error(Code::kInternal, "imager.fuse", "cannot make a FUSE session");
  // libfuse takes a mounted descriptor by this name and leaves unmounting to its owner.
  std::string mounted = "/dev/fd/" + std::to_string(fuse_.get());
  if (fuse_session_mount(session_, mounted.c_str()) != 0)
    return make_error(Code::kInternal, "imager.fuse", "cannot use the FUSE descriptor");
  loop_ = std::thread([this] {
    fuse_loop_config config{};
    config.clone_fd = 0;
    config.max_idle_threads = options_.max_threads;
    fuse_session_loop_mt(session_, &config);
  });
  return {};
}

Server::~Server() {
  if (session_ != nullptr) {
    fuse_session_exit(session_);
    // The loop sits in read(2) on the descriptor until the mount goes or the descriptor is aborted by its
    // owner; whoever unmounts first lets it end.
    if (loop_.joinable()) loop_.join();
    fuse_session_destroy(session_);
    (void)fuse_.release();  // libfuse closed it
  }
}

Result<void> Server::add(File file) {
  std::lock_guard lock(mutex_);
  if (names_.contains(file.name))
    return make_error(Code::kAlreadyExists, "imager.file_exists", "there is a file " + file.name);
  std::uint64_t inode = next_inode_++;
  names_.emplace(file.name, inode);
  files_.emplace(inode, std::move(file));
  return {};
}

Result<void> Server::add_image(const std::string& id, std::shared_ptr<store::OpenSnapshot> snapshot) {
  File file;
  file.name = "m-" + id;
  file.bytes = snapshot->map(store::MapKind::kMemory).size_bytes();
  file.image = std::move(snapshot);
  file.is_image = true;
  return add(std::move(file));
}

Result<void> Server::add_disk(const std::string& id, std::uint64_t bytes) {
  File file;
  file.name = "d-" + id;
  file.bytes = bytes;
  return add(std::move(file));
}

Result<void> Server::bind_disk(const std::string& id, std::shared_ptr<Disk> disk) {
  std::lock_guard lock(mutex_);
  auto it = names_.find("d-" + id);
  if (it == names_.end()) return make_error(Code::kNotFound, "imager.no_such_file", "there is no disk " + id);
  File& file = files_.at(it->second);
  file.bytes = disk->bytes();
  file.disk = std::move(disk);
  return {};
}

void Server::remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto it = names_.find(name);
  if (it == names_.end()) return;
  files_.erase(it->second);
  names_.erase(it);
}

std::optional<File> Server::find(std::uint64_t inode) {
  std::lock_guard lock(mutex_);
  auto it = files_.find(inode);
  return it == files_.end() ? std::nullopt : std::optional<File>(it->second);
}

std::optional<std::pair<std::uint64_t, File>> Server::find_name(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  return std::pair(it->second, files_.at(it->second));
}

void Server::report(std::uint64_t inode, Error why) {
  std::string name;
  if (auto file = find(inode)) name = file->name;
  on_error_(FileError{std::move(name), std::move(why)});
}

}  // namespace

Result<std::unique_ptr<FileServer>> FileServer::start(os::Fd fuse,
                                                      std::function<void(const FileError&)> on_error,
                                                      FileServerOptions options) {
  auto made = std::make_unique<Server>(std::move(on_error), options);
  SPACE_CHECK_OK(made->run(std::move(fuse)));
  return std::unique_ptr<FileServer>(std::move(made));
}

}  // namespace space::imager::files
