// SPDX-License-Identifier: Apache-2.0
// Files, over a real channel to a real daemon process.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "guest/testing/host_side.h"
#include "lib/os/file.h"

namespace space::guest::testing {
namespace {

struct FileTest : ::testing::Test {
  std::string dir;
  DaemonProcess daemon;
  HostSide host{daemon.take_socket()};

  void SetUp() override {
    char pattern[] = "/tmp/spaced-file-XXXXXX";
    dir = ::mkdtemp(pattern);
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }

  static guestapi::WriteFileT write(std::string path) {
    guestapi::WriteFileT request;
    request.path = std::move(path);
    return request;
  }
  static guestapi::ReadFileT read(std::string path, std::uint64_t offset = 0, std::uint64_t length = 0) {
    guestapi::ReadFileT request;
    request.path = std::move(path);
    request.offset = offset;
    request.length = length;
    return request;
  }
  static guestapi::RemoveFileT remove(std::string path, bool recursive = false) {
    guestapi::RemoveFileT request;
    request.path = std::move(path);
    request.recursive = recursive;
    return request;
  }
  static guestapi::MoveFileT move(std::string from, std::string to, bool overwrite = false) {
    guestapi::MoveFileT request;
    request.from = std::move(from);
    request.to = std::move(to);
    request.overwrite = overwrite;
    return request;
  }
  static guestapi::MakeDirectoryT make_directory(std::string path, bool parents = false) {
    guestapi::MakeDirectoryT request;
    request.path = std::move(path);
    request.parents = parents;
    return request;
  }
  static guestapi::StatFileT stat(std::string path, bool follow = true) {
    guestapi::StatFileT request;
    request.path = std::move(path);
    request.follow = follow;
    return request;
  }
  static guestapi::ListDirectoryT list(std::string path) {
    guestapi::ListDirectoryT request;
    request.path = std::move(path);
    return request;
  }
  Received& upload(guestapi::WriteFileT request, std::string_view content) {
    auto stream = host.open(std::move(request));
    host.send_all(stream, content);
    host.end(stream);
    host.until([&] { return host[stream].over(); });
    return host[stream];
  }
  void make_file(const std::string& name, std::string_view content) {
    ASSERT_TRUE(os::write_file_atomic(dir + "/" + name, content, os::Durability::kBuffered, 0644).ok());
  }
  std::string content(const std::string& name) {
    return os::read_file(dir + "/" + name).ok() ? *os::read_file(dir + "/" + name) : "(none)";
  }
  std::vector<std::string> names() { return *os::list_directory(dir); }
  static std::string pattern(std::size_t size) {
    std::string text(size, 0);
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 2654435761U) >> 13);
    return text;
  }
};

TEST_F(FileTest, AnUploadOfAnySizeComesBackTheSame) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{18 << 10}, std::size_t{(1 << 20) + 1},
                           std::size_t{9'000'000}}) {
    std::string text = pattern(size);
    auto& up = upload(write(dir + "/f"), text);
    ASSERT_EQ(up.reason(), "ok") << size;
    EXPECT_EQ(up.message<guestapi::FileInfoT>()->size, size);
    auto& down = host.call(read(dir + "/f"));
    ASSERT_EQ(down.reason(), "ok");
    EXPECT_TRUE(down.data[1] == text) << size;
  }
}

TEST_F(FileTest, ANewFileGetsTheModeAndAReplacedOneKeepsItsOwn) {
  auto request = write(dir + "/f");
  request.mode = 0640;
  upload(std::move(request), "one");
  EXPECT_EQ(host.call(stat(dir + "/f")).message<guestapi::FileInfoT>()->mode, 0640U);
  ASSERT_EQ(::chmod((dir + "/f").c_str(), 0751), 0);
  upload(write(dir + "/f"), "two");
  EXPECT_EQ(host.call(stat(dir + "/f")).message<guestapi::FileInfoT>()->mode, 0751U);
  EXPECT_EQ(content("f"), "two");
}

TEST_F(FileTest, AnUploadThatBreaksOffLeavesTheTargetAndNothingElse) {
  make_file("f", "old");
  auto stream = host.open(write(dir + "/f"));
  ASSERT_TRUE(host.send_all(stream, std::string(100'000, 'n')));
  host.reset(stream);
  host.call(stat(dir + "/f"));
  EXPECT_EQ(content("f"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  // And the same when the whole attachment goes.
  stream = host.open(write(dir + "/f"));
  ASSERT_TRUE(host.send_all(stream, std::string(100'000, 'n')));
  host.attach(2);
  host.call(stat(dir + "/f"));
  EXPECT_EQ(content("f"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, AnUploadCanBeResumedInPlace) {
  make_file("f", "0123456789");
  auto request = write(dir + "/f");
  request.in_place = true;
  request.offset = 4;
  EXPECT_EQ(upload(std::move(request), "xy").reason(), "ok");
  EXPECT_EQ(content("f"), "0123xy");
  request = write(dir + "/f");
  request.offset = 4;
  EXPECT_EQ(upload(std::move(request), "xy").reason(), "guest.malformed_offset");
}

TEST_F(FileTest, AnUploadFollowsALinkAndMakesParents) {
  make_file("real", "old");
  ASSERT_EQ(::symlink("real", (dir + "/link").c_str()), 0);
  EXPECT_EQ(upload(write(dir + "/link"), "new").reason(), "ok");
  EXPECT_EQ(content("real"), "new");
  EXPECT_EQ(host.call(stat(dir + "/link", false)).message<guestapi::FileInfoT>()->kind,
            guestapi::FileKind::Symlink);
  EXPECT_EQ(upload(write(dir + "/a/b/f"), "x").reason(), "guest.no_such_file");
  auto request = write(dir + "/a/b/f");
  request.make_parents = true;
  EXPECT_EQ(upload(std::move(request), "x").reason(), "ok");
  EXPECT_EQ(content("a/b/f"), "x");
}

TEST_F(FileTest, OnlyRegularFilesAreReadAndWritten) {
  EXPECT_EQ(host.call(read(dir)).reason(), "guest.is_a_directory");
  EXPECT_EQ(upload(write(dir), "x").reason(), "guest.is_a_directory");
  EXPECT_EQ(host.call(read("/dev/zero")).reason(), "guest.not_a_regular_file");
  EXPECT_EQ(upload(write("/dev/null"), "x").reason(), "guest.not_a_regular_file");
  ASSERT_EQ(::mkfifo((dir + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(host.call(read(dir + "/pipe")).reason(), "guest.not_a_regular_file");
}

TEST_F(FileTest, AFileOfTheKernelIsReadToItsEnd) {
  auto& call = host.call(read("/proc/self/status"));
  EXPECT_EQ(call.reason(), "ok");
  EXPECT_NE(call.data[1].find("spaced"), std::string::npos);
}

TEST_F(FileTest, APartOfAFileCanBeRead) {
  make_file("f", "0123456789");
  EXPECT_EQ(host.call(read(dir + "/f", 3, 4)).data[1], "3456");
  EXPECT_EQ(host.call(read(dir + "/f", 8)).data[1], "89");
  EXPECT_EQ(host.call(read(dir + "/f", 50)).data[1], "");
}

TEST_F(FileTest, ASlowReaderOfAFileGetsItAll) {
  std::string text = pattern(3'000'000);
  make_file("f", text);
  auto stream = host.open(read(dir + "/f"));
  host[stream].take_data = false;
  ASSERT_TRUE(host.until([&] { return host[stream].kept_back >= wire::kWindowBytes - 1000; }));
  EXPECT_FALSE(host[stream].over());
  host.resume(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_TRUE(host[stream].data[1] == text);
}

TEST_F(FileTest, MalformedPathsAreRefused) {
  for (const std::string& path :
       {std::string(), std::string("relative"), std::string("/a\0b", 4), std::string(5000, '/')}) {
    EXPECT_EQ(host.call(stat(path)).reason(), "guest.malformed_path");
    EXPECT_EQ(host.call(stat(path)).status->error().field, "path");
    EXPECT_EQ(host.call(read(path)).reason(), "guest.malformed_path");
    EXPECT_EQ(upload(write(path), "x").reason(), "guest.malformed_path");
    EXPECT_EQ(host.call(remove(path)).reason(), "guest.malformed_path");
  }
  EXPECT_EQ(host.call(stat(dir + "/" + std::string(300, 'x'))).reason(), "guest.name_too_long");
}

TEST_F(FileTest, StatTellsKindsAndLinks) {
  make_file("f", "12345");
  ASSERT_EQ(::symlink("f", (dir + "/link").c_str()), 0);
  const auto* info = host.call(stat(dir + "/link")).message<guestapi::FileInfoT>();
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->kind, guestapi::FileKind::Regular);
  EXPECT_EQ(info->size, 5U);
  EXPECT_GT(info->modified_ms, 1'500'000'000'000);
  info = host.call(stat(dir + "/link", false)).message<guestapi::FileInfoT>();
  EXPECT_EQ(info->kind, guestapi::FileKind::Symlink);
  EXPECT_EQ(info->target, "f");
  EXPECT_EQ(host.call(stat(dir + "/none")).reason(), "guest.no_such_file");
  EXPECT_EQ(host.call(stat(dir + "/f/x")).reason(), "guest.not_a_directory");
}

TEST_F(FileTest, ALargeDirectoryComesInPages) {
  for (int i = 0; i < 1500; ++i) make_file("file-with-a-rather-long-name-" + std::to_string(i), "");
  auto& call = host.call(list(dir));
  ASSERT_EQ(call.reason(), "ok");
  EXPECT_GT(call.messages.size(), 1U);
  std::vector<std::string> found;
  for (const auto& page : call.messages) {
    for (const auto& entry : page->body.AsDirectoryPage()->entries) found.push_back(entry->path);
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, names());
  EXPECT_EQ(host.call(list(dir + "/none")).reason(), "guest.no_such_file");
  EXPECT_EQ(host.call(list(dir + "/file-with-a-rather-long-name-1")).reason(), "guest.not_a_directory");
}

TEST_F(FileTest, MovingReplacesOnlyWhenAsked) {
  make_file("a", "a");
  make_file("b", "b");
  EXPECT_EQ(host.call(move(dir + "/a", dir + "/b")).reason(), "guest.exists");
  EXPECT_EQ(content("b"), "b");
  EXPECT_EQ(host.call(move(dir + "/a", dir + "/b", true)).reason(), "ok");
  EXPECT_EQ(content("b"), "a");
  EXPECT_EQ(host.call(move(dir + "/a", dir + "/c")).reason(), "guest.no_such_file");
}

TEST_F(FileTest, AFileMovesToAnotherFileSystem) {
  make_file("a", "content");
  std::string target = "/dev/shm/spaced-move-" + std::to_string(::getpid());
  EXPECT_EQ(host.call(move(dir + "/a", target)).reason(), "ok");
  EXPECT_EQ(*os::read_file(target), "content");
  EXPECT_EQ(names(), std::vector<std::string>{});
  ASSERT_EQ(::mkdir((dir + "/d").c_str(), 0700), 0);
  EXPECT_EQ(host.call(move(dir + "/d", target + "-d")).reason(), "guest.cross_device");
  ::unlink(target.c_str());
}

TEST_F(FileTest, RemovingADirectoryWithContentMustBeRecursive) {
  ASSERT_TRUE(os::make_directories(dir + "/t/a/b/c").ok());
  make_file("kept", "x");
  make_file("t/a/f", "x");
  ASSERT_EQ(::symlink((dir + "/kept").c_str(), (dir + "/t/a/b/link").c_str()), 0);
  ASSERT_EQ(::symlink(dir.c_str(), (dir + "/t/up").c_str()), 0);
  EXPECT_EQ(host.call(remove(dir + "/t")).reason(), "guest.not_empty");
  EXPECT_EQ(host.call(remove(dir + "/t/", true)).reason(), "ok");
  EXPECT_EQ(names(), std::vector<std::string>{"kept"});
  EXPECT_EQ(host.call(remove(dir + "/t")).reason(), "guest.no_such_file");
  EXPECT_EQ(host.call(remove(dir + "/kept")).reason(), "ok");
  EXPECT_EQ(host.call(remove("/", true)).reason(), "guest.malformed_path");
}

TEST_F(FileTest, DirectoriesAreMadeWithParentsWhenAsked) {
  EXPECT_EQ(host.call(make_directory(dir + "/a/b/c")).reason(), "guest.no_such_file");
  EXPECT_EQ(host.call(make_directory(dir + "/a/b/c/", true)).reason(), "ok");
  EXPECT_EQ(host.call(make_directory(dir + "/a/b/c", true)).reason(), "ok");
  EXPECT_EQ(host.call(make_directory(dir + "/a/b/c")).reason(), "guest.exists");
  make_file("f", "");
  EXPECT_EQ(host.call(make_directory(dir + "/f", true)).reason(), "guest.exists");
  EXPECT_EQ(host.call(make_directory(dir + "/f/x", true)).reason(), "guest.not_a_directory");
}

TEST_F(FileTest, AFullDiskIsReportedAndLeavesNothing) {
  if (::mount("small", dir.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(upload(write(dir + "/f"), std::string(5 << 20, 'x')).reason(), "guest.disk_full");
  EXPECT_EQ(names(), std::vector<std::string>{});
  EXPECT_EQ(upload(write(dir + "/f"), std::string(500'000, 'x')).reason(), "ok");
  host.call(guestapi::HelloT{});
  EXPECT_EQ(::umount2(dir.c_str(), MNT_DETACH), 0);
}

struct WatchTest : FileTest {
  wire::StreamId watch(std::string path, bool recursive = false) {
    guestapi::WatchFilesT request;
    request.path = std::move(path);
    request.recursive = recursive;
    auto stream = host.open(std::move(request));
    host.until([&] { return host[stream].message<guestapi::WatchingT>() != nullptr || host[stream].over(); });
    return stream;
  }
  bool wait_event(wire::StreamId stream, guestapi::WatchKind kind, const std::string& path) {
    return host.until([&] {
      return std::any_of(host[stream].messages.begin(), host[stream].messages.end(), [&](const auto& reply) {
        const auto* event = reply->body.AsWatchEvent();
        return event != nullptr && event->kind == kind && event->path == path;
      });
    });
  }
};

TEST_F(WatchTest, ReportsWhatHappensInADirectory) {
  auto stream = watch(dir);
  make_file("f", "x");  // a temporary file, renamed
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::MovedTo, dir + "/f"));
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Created, dir + "/f.tmp"));
  ASSERT_EQ(::chmod((dir + "/f").c_str(), 0600), 0);
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Attributes, dir + "/f"));
  ASSERT_EQ(::unlink((dir + "/f").c_str()), 0);
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Removed, dir + "/f"));
  host.end(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].reason(), "ok");
}

TEST_F(WatchTest, FollowsNewDirectoriesWhenRecursive) {
  ASSERT_TRUE(os::make_directories(dir + "/a/b").ok());
  auto stream = watch(dir, true);
  make_file("a/b/f", "x");
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::MovedTo, dir + "/a/b/f"));
  ASSERT_TRUE(os::make_directories(dir + "/n/m").ok());
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Created, dir + "/n/m"));
  make_file("n/m/g", "x");
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::MovedTo, dir + "/n/m/g"));
  ASSERT_EQ(::rename((dir + "/n").c_str(), (dir + "/o").c_str()), 0);
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::MovedTo, dir + "/o"));
  make_file("o/m/h", "x");
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::MovedTo, dir + "/o/m/h"));
  host.reset(stream);
  EXPECT_EQ(host.call(guestapi::HelloT{}).reason(), "ok");
}

TEST_F(WatchTest, AFileCanBeWatchedAndMustExist) {
  make_file("f", "x");
  auto stream = watch(dir + "/f");
  ASSERT_EQ(::truncate((dir + "/f").c_str(), 0), 0);
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Modified, dir + "/f"));
  ASSERT_EQ(::unlink((dir + "/f").c_str()), 0);
  EXPECT_TRUE(wait_event(stream, guestapi::WatchKind::Removed, dir + "/f"));
  auto none = watch(dir + "/none");
  EXPECT_EQ(host[none].reason(), "guest.no_such_file");
}

}  // namespace
}  // namespace space::guest::testing
