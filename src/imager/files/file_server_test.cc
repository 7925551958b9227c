// SPDX-License-Identifier: Apache-2.0
#include "imager/files/file_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <condition_variable>
#include <random>

#include "imager/files/testing/memory_snapshot.h"
#include "lib/os/file.h"

namespace space::imager::files {
namespace {

// A real mount in a directory of its own. Needs root, as the node does.
struct FileServerTest : ::testing::Test {
  os::SystemRandom random;
  std::string dir;
  std::unique_ptr<FileServer> server;
  std::mutex mutex;
  std::condition_variable told;
  std::vector<FileError> errors;

  void SetUp() override { mount({}); }
  void mount(FileServerOptions options) {
    char pattern[] = "/tmp/space-fuse-XXXXXX";
    dir = ::mkdtemp(pattern);
    ASSERT_TRUE(os::make_directory(dir + "/spool").ok());
    ASSERT_TRUE(os::make_directory(dir + "/files").ok());
    os::Fd fuse = *os::open_file("/dev/fuse", O_RDWR);
    std::string arguments = "fd=" + std::to_string(fuse.get()) +
                            ",rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions";
    ASSERT_EQ(::mount("space", (dir + "/files").c_str(), "fuse.space", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                      arguments.c_str()),
              0)
        << strerror(errno);
    server = *FileServer::start(
        std::move(fuse),
        [this](const FileError& e) {
          std::lock_guard lock(mutex);
          errors.push_back(e);
          told.notify_all();
        },
        options);
  }
  void unmount() {
    if (dir.empty()) return;
    ::umount2((dir + "/files").c_str(), MNT_DETACH);
    server.reset();
    os::remove_tree(dir).ignore("test clean-up");
    dir.clear();
  }
  void TearDown() override { unmount(); }
  std::string path(const std::string& name) { return dir + "/files/" + name; }
  static std::shared_ptr<MemorySnapshot> image(std::size_t bytes) {
    auto snapshot = std::make_shared<MemorySnapshot>(bytes, store::kPageBytes);
    std::mt19937 generator(3);
    for (auto& b : snapshot->content) b = static_cast<std::byte>(generator());
    return snapshot;
  }
};

TEST_F(FileServerTest, TwoPrivateMappingsShareOneReadOfTheImage) {
  auto snapshot = image(4u << 20);
  ASSERT_TRUE(server->add_image("a", snapshot).ok());
  os::Fd file = *os::open_file(path("m-a"), O_RDONLY);
  auto map = [&] {
    return static_cast<std::byte*>(
        ::mmap(nullptr, 4u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0));
  };
  std::byte* one = map();
  EXPECT_EQ(std::memcmp(one, snapshot->content.data(), 4u << 20), 0);
  auto reads = snapshot->reads.load();
  std::byte* two = map();
  one[5000] = std::byte{1};
  EXPECT_EQ(std::memcmp(two, snapshot->content.data(), 4u << 20), 0);
  EXPECT_EQ(snapshot->reads.load(), reads);
  ::munmap(one, 4u << 20);
  ::munmap(two, 4u << 20);
}

TEST_F(FileServerTest, ImagesCannotBeWritten) {
  ASSERT_TRUE(server->add_image("a", image(1u << 20)).ok());
  os::Fd file = *os::open_file(path("m-a"), O_RDWR);
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), -1);
  EXPECT_NE(::ftruncate(file.get(), 10), 0);
}

TEST_F(FileServerTest, ADiskIsZerosUntilBoundAndThenKeepsWhatIsWritten) {
  ASSERT_TRUE(server->add_disk("s1", 1u << 20).ok());
  os::Fd file = *os::open_file(path("d-s1"), O_RDWR);
  char buffer[5000];
  ASSERT_EQ(::pread(file.get(), buffer, sizeof buffer, 100), 5000);
  EXPECT_EQ(std::count(buffer, buffer + 5000, 0), 5000);
  std::shared_ptr<Disk> disk = *Disk::create(dir + "/spool", 2u << 20, nullptr, random);
  ASSERT_TRUE(server->bind_disk("s1", disk).ok());
  struct stat info{};
  ASSERT_EQ(::fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_size, 2 << 20);
  std::string text(70'000, 'q');
  ASSERT_EQ(::pwrite(file.get(), text.data(), text.size(), 12'345), 70'000);
  std::string back(70'000, 0);
  ASSERT_EQ(::pread(file.get(), back.data(), back.size(), 12'345), 70'000);
  EXPECT_EQ(back, text);
  ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 65536), 0);
  ASSERT_EQ(::pread(file.get(), back.data(), 10, 20'000), 10);
  EXPECT_EQ(back.substr(0, 10), std::string(10, 0));
  EXPECT_EQ(::fsync(file.get()), 0);
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 2 << 20), -1);
  EXPECT_TRUE(errors.empty());
}

TEST_F(FileServerTest, ABadPageIsAnErrorAndIsReported) {
  auto snapshot = image(1u << 20);
  snapshot->fail = true;
  ASSERT_TRUE(server->add_image("bad", snapshot).ok());
  os::Fd file = *os::open_file(path("m-bad"), O_RDONLY);
  char buffer[4096];
  EXPECT_EQ(::pread(file.get(), buffer, sizeof buffer, 0), -1);
  EXPECT_EQ(errno, EIO);
  std::unique_lock lock(mutex);
  told.wait(lock, [&] { return !errors.empty(); });
  EXPECT_EQ(errors[0].name, "m-bad");
  EXPECT_EQ(errors[0].why.reason, "store.corrupt");
}

TEST_F(FileServerTest, ARemovedFileFailsForThoseWhoHaveItOpen) {
  ASSERT_TRUE(server->add_disk("s", 1u << 20).ok());
  os::Fd file = *os::open_file(path("d-s"), O_RDWR);
  server->remove("d-s");
  char buffer[10];
  EXPECT_EQ(::pread(file.get(), buffer, 10, 0), -1);
  EXPECT_FALSE(os::open_file(path("d-s"), O_RDWR).ok());
  EXPECT_TRUE(server->add_disk("s", 1u << 20).ok());
  EXPECT_EQ(server->add_disk("s", 1u << 20).error().reason, "imager.file_exists");
}

// A snapshot that doesn't answer until it is let go.
class Stuck final : public store::OpenSnapshot, public store::MapReader {
 public:
  std::mutex mutex;
  std::condition_variable go;
  bool open = false;
  store::SnapshotRecord record_;
  [[nodiscard]] const store::SnapshotRecord& record() const override { return record_; }
  [[nodiscard]] store::MapReader& map(store::MapKind) override { return *this; }
  Result<Bytes> device_state() override { return Bytes(); }
  [[nodiscard]] std::uint64_t size_bytes() const override { return 1u << 20; }
  [[nodiscard]] std::uint32_t unit_bytes() const override { return store::kPageBytes; }
  Result<void> read(std::uint64_t, std::span<std::byte>) override {
    std::unique_lock lock(mutex);
    go.wait(lock, [&] { return open; });
    return {};
  }
  Result<std::vector<std::uint64_t>> stored_units(std::uint64_t, std::uint64_t) override {
    return std::vector<std::uint64_t>();
  }
  Result<std::vector<std::uint64_t>> differing(std::span<const store::ChangedUnit>) override {
    return std::vector<std::uint64_t>();
  }
  Result<void> prefetch(std::span<const std::uint64_t>) override { return {}; }
};

TEST_F(FileServerTest, ARequestThatTakesTooLongEndsInAnError) {
  unmount();
  mount({.max_threads = 4, .request_deadline = std::chrono::milliseconds(50), .max_readahead_bytes = 65536});
  auto stuck = std::make_shared<Stuck>();
  ASSERT_TRUE(server->add_image("stuck", stuck).ok());
  os::Fd file = *os::open_file(path("m-stuck"), O_RDONLY);
  char buffer[4096];
  EXPECT_EQ(::pread(file.get(), buffer, sizeof buffer, 0), -1);
  EXPECT_EQ(errno, EIO);
  {
    std::unique_lock lock(mutex);
    told.wait(lock, [&] { return !errors.empty(); });
    EXPECT_EQ(errors[0].why.reason, "imager.request_deadline");
  }
  {
    std::lock_guard lock(stuck->mutex);
    stuck->open = true;
  }
  stuck->go.notify_all();
}

}  // namespace
}  // namespace space::imager::files
