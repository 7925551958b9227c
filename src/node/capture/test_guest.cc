// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 31
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "lib/os/file.h"
#include "node/capture/internal/test_guest.h"

namespace space::node::capture::internal {
namespace {

enum Order : std::uint8_t { kFill, kLoad, kReceive, kDirect, kRing, kFork, kStart, kStop };
struct Command {
  std::uint8_t order;
  std::uint64_t page, count, value;
};
struct Hello {
  std::uint64_t address;
  bool armed;
};

bool transfer(int fd, void* buffer, std::size_t size, ssize_t (*call)(int, void*, std::size_t)) {
  auto* at = static_cast<char*>(buffer);
  while (size > 0) {
    ssize_t done = call(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}
bool get(int fd, void* to, std::size_t size) {
  return transfer(fd, to, size, [](int f, void* b, std::size_t n) { return ::read(f, b, n); });
}
bool put(int fd, void* from, std::size_t size) {
  return transfer(fd, from, size,
                  [](int f, void* b, std::size_t n) { return ::write(f, static_cast<const void*>(b), n); });
}

// One read through a ring of its own, by plain system calls.
bool ring_read(int file, void* to, std::size_t size) {
  io_uring_params parameters{};
  os::Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 4, &parameters)));
  if (!ring) return false;
  std::size_t ring_bytes =
      std::max<std::size_t>(parameters.sq_off.array + 4 * parameters.sq_entries,
                            parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
  auto* rings = static_cast<char*>(::mmap(nullptr, ring_bytes, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_POPULATE, ring.get(), IORING_OFF_SQ_RING));
  auto* entries = static_cast<io_uring_sqe*>(::mmap(nullptr, parameters.sq_entries * sizeof(io_uring_sqe),
                                                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                                    ring.get(), IORING_OFF_SQES));
  if (rings == MAP_FAILED || entries == MAP_FAILED) return false;
  std::memset(&entries[0], 0, sizeof entries[0]);
  entries[0].opcode = IORING_OP_READ;
  entries[0].fd = file;
  entries[0].addr =
      reinterpret_cast<std::uintptr_t>(to);  // SAFETY: the kernel fills `size` bytes of our mapping
  entries[0].len = static_cast<unsigned>(size);
  // SAFETY: the layout of the ring is what the kernel said in `parameters`.
  auto* tail = reinterpret_cast<unsigned*>(rings + parameters.sq_off.tail);
  reinterpret_cast<unsigned*>(rings + parameters.sq_off.array)[0] = 0;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  if (::syscall(SYS_io_uring_enter, ring.get(), 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) != 1) return false;
  auto* done = reinterpret_cast<io_uring_cqe*>(rings + parameters.cq_off.cqes);
  bool good = done->res == static_cast<int>(size);
  ::munmap(entries, parameters.sq_entries * sizeof(io_uring_sqe));
  ::munmap(rings, ring_bytes);
  return good;
}

class Writer {
 public:
  Writer(std::byte* ram, std::uint64_t pages, std::uint64_t* count)
      : ram_(ram), pages_(pages), count_(count) {}
  void start(std::uint64_t seed) {
    stop_ = false;
    thread_ = std::thread([this, seed] {
      std::uint64_t state = seed | 1;
      while (!stop_) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        // A quarter of the pages gets most writes, as in real programs.
        std::uint64_t page = (state >> 33) % ((state >> 60) != 0 ? (pages_ + 3) / 4 : pages_);
        std::byte* at = ram_ + page * kPageBytes + (state >> 20) % 500 * 8;
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(at), state,
                         __ATOMIC_RELAXED);  // SAFETY: aligned, inside the mapping
        __atomic_fetch_add(count_, 1, __ATOMIC_RELAXED);
      }
    });
  }
  void stop() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::byte* ram_;
  std::uint64_t pages_;
  std::uint64_t* count_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

[[noreturn]] void guest_main(int image, std::uint64_t size, Arming arming, int commands, int answers,
                             std::uint64_t* writes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto* ram = static_cast<std::byte*>(
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, image, 0));
  if (ram == MAP_FAILED) ::_exit(2);
  ::madvise(ram, size, MADV_NOHUGEPAGE);
  ArmFailure failure;
  bool armed = arming == Arming::kWriteProtect && arm_write_protection(ram, size, failure) >= 0;
  Hello hello{reinterpret_cast<std::uintptr_t>(ram), armed};  // SAFETY: a number for the parent
  int ends[2];
  if (::pipe(ends) != 0 || !put(answers, &hello, sizeof hello)) ::_exit(3);
  Writer writer(ram, size / kPageBytes, writes);
  Command c;
  while (get(commands, &c, sizeof c)) {
    std::byte* at = ram + c.page * kPageBytes;
    std::size_t bytes = c.count * kPageBytes;
    std::uint8_t good = 1;
    switch (c.order) {
      case kFill:
        std::memset(at, static_cast<int>(c.value), bytes);
        break;
      case kLoad:
        for (std::size_t i = 0; i < bytes; i += kPageBytes) (void)*static_cast<volatile std::byte*>(at + i);
        break;
      case kReceive: {
        std::vector<char> page(kPageBytes, static_cast<char>(c.value));
        good = put(ends[1], page.data(), page.size()) && get(ends[0], at, kPageBytes);
        break;
      }
      case kDirect:
        good = ::pread(static_cast<int>(c.value), at, bytes, 0) == static_cast<ssize_t>(bytes);
        break;
      case kRing:
        good = ring_read(static_cast<int>(c.value), at, bytes);
        break;
      case kFork: {
        pid_t child = ::fork();
        if (child == 0) {
          std::memset(at, static_cast<int>(c.value), bytes);
          ::_exit(0);
        }
        good = ::waitpid(child, nullptr, 0) == child;
        break;
      }
      case kStart:
        writer.start(c.value);
        break;
      case kStop:
        writer.stop();
        break;
    }
    if (!put(answers, &good, 1)) break;
  }
  ::_exit(0);
}

}  // namespace

TestGuest::TestGuest(int image, std::uint64_t pages, Arming arming) {
  int down[2];
  int up[2];
  EXPECT_EQ(0, ::pipe2(down, O_CLOEXEC));
  EXPECT_EQ(0, ::pipe2(up, O_CLOEXEC));
  void* shared = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  writes_ = static_cast<std::uint64_t*>(shared);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(down[1]);
    guest_main(image, pages * kPageBytes, arming, down[0], up[1], writes_);
  }
  ::close(down[0]);
  ::close(up[1]);
  commands_ = os::Fd(down[1]);
  answers_ = os::Fd(up[0]);
  Hello hello{};
  EXPECT_TRUE(get(answers_.get(), &hello, sizeof hello));
  range_ = {hello.address, pages * kPageBytes};
  armed_ = hello.armed;
}

TestGuest::~TestGuest() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(writes_, kPageBytes);
}

void TestGuest::order(std::uint8_t what, std::uint64_t page, std::uint64_t count, std::uint64_t value) {
  Command command{what, page, count, value};
  std::uint8_t good = 0;
  EXPECT_TRUE(put(commands_.get(), &command, sizeof command) && get(answers_.get(), &good, 1))
      << "the guest ended";
  EXPECT_EQ(1, good) << "order " << int{what} << " failed in the guest";
}
void TestGuest::fill(std::uint64_t page, std::uint64_t count, std::uint8_t value) {
  order(kFill, page, count, value);
}
void TestGuest::load(std::uint64_t page, std::uint64_t count) {
  order(kLoad, page, count, 0);
}
void TestGuest::receive(std::uint64_t page, std::uint8_t value) {
  order(kReceive, page, 1, value);
}
void TestGuest::read_direct(int file, std::uint64_t page, std::uint64_t count) {
  order(kDirect, page, count, static_cast<std::uint64_t>(file));
}
void TestGuest::read_by_ring(int file, std::uint64_t page, std::uint64_t count) {
  order(kRing, page, count, static_cast<std::uint64_t>(file));
}
void TestGuest::fill_in_a_fork(std::uint64_t page, std::uint64_t count, std::uint8_t value) {
  order(kFork, page, count, value);
}
void TestGuest::start_writing(std::uint64_t seed) {
  order(kStart, 0, 0, seed);
}
void TestGuest::stop_writing() {
  order(kStop, 0, 0, 0);
}
std::uint64_t TestGuest::writes() const {
  return __atomic_load_n(writes_, __ATOMIC_RELAXED);
}

std::vector<std::byte> TestGuest::memory() const {
  std::vector<std::byte> out(range_.size_bytes);
  auto fd = os::open_file("/proc/" + std::to_string(pid_) + "/mem", O_RDONLY);
  EXPECT_TRUE(fd.ok());
  EXPECT_EQ(static_cast<ssize_t>(out.size()),
            ::pread(fd->get(), out.data(), out.size(), static_cast<off_t>(range_.address)));
  return out;
}

// Serves one file from memory, as the imager does: page cache kept, no direct I/O.
struct TestImage::Fuse {
  std::vector<std::uint64_t> words;
  struct fuse* handle = nullptr;
  std::thread loop;
};

TestImage::TestImage(ImageKind kind, std::uint64_t pages) {
  std::vector<std::uint64_t> words(pages * kPageBytes / 8);
  for (std::uint64_t i = 0; i < words.size(); ++i) words[i] = word_of(i / 512);
  char name[] = "/tmp/space-capture-XXXXXX";
  folder_ = ::mkdtemp(name);
  if (kind == ImageKind::kFuse) {
    fuse_ = new Fuse{std::move(words),
                     nullptr,
                     {}};  // NOLINT: deleted in the destructor; the type is private to this file
    fuse_operations operations{};
    operations.getattr = [](const char* path, struct stat* info, fuse_file_info*) {
      auto* self = static_cast<Fuse*>(fuse_get_context()->private_data);
      std::memset(info, 0, sizeof *info);
      bool root = std::strcmp(path, "/") == 0;
      info->st_mode = root ? S_IFDIR | 0755 : S_IFREG | 0444;
      info->st_nlink = 1;
      info->st_size = root ? 0 : static_cast<off_t>(self->words.size() * 8);
      return 0;
    };
    operations.open = [](const char*, fuse_file_info* file) {
      file->keep_cache = 1;
      return 0;
    };
    operations.read = [](const char*, char* out, std::size_t size, off_t at, fuse_file_info*) {
      auto* self = static_cast<Fuse*>(fuse_get_context()->private_data);
      std::size_t whole = self->words.size() * 8;
      std::size_t from = std::min<std::size_t>(static_cast<std::size_t>(at), whole);
      std::size_t part = std::min(size, whole - from);
      std::memcpy(out, reinterpret_cast<const char*>(self->words.data()) + from,
                  part);  // SAFETY: words read as bytes
      return static_cast<int>(part);
    };
    char program[] = "image";
    char* argv[] = {program, nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(1, argv);
    fuse_->handle = fuse_new(&arguments, &operations, sizeof operations, fuse_);
    EXPECT_NE(nullptr, fuse_->handle);
    fuse_opt_free_args(&arguments);
    EXPECT_EQ(0, fuse_mount(fuse_->handle, folder_.c_str()));
    fuse_->loop = std::thread([handle = fuse_->handle] { fuse_loop(handle); });
    fd_ = os::Fd(::open((folder_ + "/image").c_str(), O_RDONLY | O_CLOEXEC));
  } else {
    fd_ = kind == ImageKind::kMemory
              ? os::Fd(::memfd_create("image", MFD_CLOEXEC))
              : os::Fd(::open((folder_ + "/image").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(static_cast<ssize_t>(words.size() * 8), ::pwrite(fd_.get(), words.data(), words.size() * 8, 0));
  }
  EXPECT_TRUE(static_cast<bool>(fd_));
}

TestImage::~TestImage() {
  fd_.reset();
  if (fuse_ != nullptr) {
    fuse_exit(fuse_->handle);
    fuse_unmount(fuse_->handle);
    fuse_->loop.join();
    fuse_destroy(fuse_->handle);
    delete fuse_;  // NOLINT
  }
  os::remove_tree(folder_).ignore("test");
}

}  // namespace space::node::capture::internal
