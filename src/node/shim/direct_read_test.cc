// SPDX-License-Identifier: Apache-2.0
// The gap of write protection that the library closes: a direct read pins pages and fills them past the
// protection. The file comes from a FUSE server that answers only when the test says so, so that a collection
// of the record falls into the middle of the read, every time.
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>
#include <sys/uio.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "node/capture/dirty_tracker.h"
#include "node/shim/shim_client.h"
#include "node/shim/shim_test_vmm.h"

namespace space::node::shim {
namespace {

using capture::PageRuns;

constexpr std::uint64_t kPages = 64;
constexpr std::uint64_t kFilePages = 4;

// One file, `data`, whose reads wait for release().
class HeldFile {
 public:
  explicit HeldFile(const std::string& at) : at_(at) {
    fuse_operations operations{};
    operations.getattr = [](const char* path, struct stat* info, fuse_file_info*) {
      std::memset(info, 0, sizeof *info);
      bool root = std::strcmp(path, "/") == 0;
      info->st_mode = root ? S_IFDIR | 0755 : S_IFREG | 0444;
      info->st_nlink = 1;
      info->st_size = root ? 0 : static_cast<off_t>(kFilePages * 4096);
      return 0;
    };
    operations.open = [](const char*, fuse_file_info* file) {
      file->direct_io = 1;
      return 0;
    };
    operations.read = [](const char*, char* out, std::size_t size, off_t, fuse_file_info*) {
      return static_cast<HeldFile*>(fuse_get_context()->private_data)->answer(out, size);
    };
    char name[] = "held";
    char* argv[] = {name, nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(1, argv);
    fuse_ = fuse_new(&arguments, &operations, sizeof operations, this);
    EXPECT_NE(nullptr, fuse_);
    fuse_opt_free_args(&arguments);
    EXPECT_EQ(0, fuse_mount(fuse_, at_.c_str()));
    loop_ = std::thread([this] { fuse_loop(fuse_); });
  }
  ~HeldFile() {
    release();
    fuse_exit(fuse_);
    fuse_unmount(fuse_);  // wakes the loop
    loop_.join();
    fuse_destroy(fuse_);
  }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  void wait_for_read() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  int answer(char* out, std::size_t size) {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return released_; });
    std::memset(out, 'd', size);
    return static_cast<int>(size);
  }
  std::string at_;
  struct fuse* fuse_ = nullptr;
  std::thread loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = false;
  bool released_ = false;
};

class DirectRead : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string socket = folder / "shim.sock";
  std::string placeholder = make_file(folder / "placeholder", kPages, 'p');
  std::string mount = [this] {
    std::string path = folder / "mount";
    EXPECT_TRUE(os::make_directory(path).ok());
    return path;
  }();
};

TEST_F(DirectRead, ThatEndsAfterACollectionIsReportedByTheNext) {
  HeldFile file(mount);
  TestVmm vmm(placeholder, kPages, socket);
  auto client = ShimClient::connect(socket, kPages * 4096);
  ASSERT_TRUE(client.ok());
  auto mapping = client->track();
  ASSERT_TRUE(mapping.ok());
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  ASSERT_TRUE(target.ok());
  auto tracker = capture::open_tracker(capture::TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok()) << tracker.error().describe();

  vmm.tell("pread " + mount + "/data 10 4");
  file.wait_for_read();
  // The read is under way: its pages are pinned, their content has not arrived.
  ASSERT_TRUE((*tracker)->collect_and_rearm().ok());
  file.release();
  ASSERT_EQ("16384", vmm.line());
  ASSERT_EQ(std::to_string('d'), vmm.ask("read 10"));
  auto after = (*tracker)->collect_and_rearm();
  ASSERT_TRUE(after.ok());
  EXPECT_EQ((PageRuns{{10, 4}}), *after);
}

TEST_F(DirectRead, IntoMemoryThatIsNoGuestMemoryIsLeftAlone) {
  TestVmm vmm(placeholder, kPages, socket);
  auto client = ShimClient::connect(socket, kPages * 4096);
  ASSERT_TRUE(client.ok());
  auto mapping = client->track();
  ASSERT_TRUE(mapping.ok());
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  auto tracker = capture::open_tracker(capture::TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok());
  // Its standard input, read into a buffer of the C library.
  ASSERT_EQ(std::to_string('p'), vmm.ask("read 3"));
  EXPECT_EQ(PageRuns{}, *(*tracker)->collect_and_rearm());
}

TEST_F(DirectRead, OfADiskFileOpenedForDirectAccessIsReported) {
  std::string file = make_file(folder / "disk", 8, 'x');
  TestVmm vmm(placeholder, kPages, socket);
  auto client = ShimClient::connect(socket, kPages * 4096);
  ASSERT_TRUE(client.ok());
  auto mapping = client->track();
  ASSERT_TRUE(mapping.ok());
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  auto tracker = capture::open_tracker(capture::TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok());
  ASSERT_EQ("32768", vmm.ask("direct " + file + " 20 8"));
  EXPECT_EQ((PageRuns{{20, 8}}), *(*tracker)->collect_and_rearm());
}

}  // namespace
}  // namespace space::node::shim
