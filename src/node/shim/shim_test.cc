// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "lib/os/random.h"
#include "node/capture/dirty_tracker.h"
#include "node/shim/shim_client.h"
#include "node/shim/shim_protocol.h"
#include "node/shim/shim_test_vmm.h"

namespace space::node::shim {
namespace {

using capture::PageRuns;
using capture::TrackerKind;

constexpr std::uint64_t kPages = 256;
constexpr std::uint64_t kSize = kPages * 4096;

class Shim : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string socket = folder / "shim.sock";
  std::string placeholder = make_file(folder / "placeholder", kPages, 0);
  std::string image = make_file(folder / "image", kPages, 'i');

  ShimClient connect() {
    auto client = ShimClient::connect(socket, kSize);
    EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().describe());
    return std::move(client).value();
  }
  os::Fd open_image() { return os::Fd(::open(image.c_str(), O_RDONLY | O_CLOEXEC)); }

  // A packet of our own making and what comes back, empty at the end of the connection.
  std::string raw(const std::string& bytes, const std::vector<int>& fds) {
    os::Fd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, socket.c_str(), socket.size() + 1);
    EXPECT_EQ(0, ::connect(connection.get(), reinterpret_cast<sockaddr*>(&name), sizeof name));
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    EXPECT_EQ(static_cast<ssize_t>(bytes.size()), ::sendmsg(connection.get(), &message, MSG_NOSIGNAL));
    char answer[256];
    ssize_t got = ::recv(connection.get(), answer, sizeof answer, 0);
    return got > 0 ? std::string(answer, static_cast<std::size_t>(got)) : std::string();
  }
  std::uint32_t raw_status(const std::string& bytes, const std::vector<int>& fds) {
    space_shim_answer answer{};
    std::string got = raw(bytes, fds);
    EXPECT_EQ(sizeof answer, got.size());
    std::memcpy(&answer, got.data(), std::min(sizeof answer, got.size()));
    return answer.status;
  }
  static std::string request(std::uint16_t kind, std::uint64_t size,
                             std::uint16_t version = SPACE_SHIM_VERSION) {
    space_shim_request message{SPACE_SHIM_REQUEST_MAGIC, version, kind, 9, size};
    return std::string(reinterpret_cast<const char*>(&message), sizeof message);
  }
};

TEST_F(Shim, BindMapsTheImageInPlaceOfThePlaceholderAndArmsTracking) {
  TestVmm vmm(placeholder, kPages, socket);
  ASSERT_EQ("0", vmm.ask("read 7"));
  auto client = connect();
  os::Fd fd = open_image();
  auto mapping = client.bind(fd.get());
  ASSERT_TRUE(mapping.ok()) << mapping.error().describe();
  EXPECT_EQ(vmm.address(), mapping->address);
  EXPECT_EQ(kSize, mapping->size_bytes);
  EXPECT_TRUE(mapping->bound);
  EXPECT_TRUE(mapping->armed) << mapping->tracking_problem;
  EXPECT_EQ(std::to_string('i'), vmm.ask("read 7"));
}

TEST_F(Shim, WritesOfTheVmmNeverReachTheImage) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  ASSERT_TRUE(connect().bind(fd.get()).ok());
  ASSERT_EQ("ok", vmm.ask("write 7 65"));
  char byte = 0;
  ASSERT_EQ(1, ::pread(fd.get(), &byte, 1, 7 * 4096));
  EXPECT_EQ('i', byte);
}

TEST_F(Shim, PagesWrittenAfterBindAreReportedExactly) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  auto mapping = connect().bind(fd.get());
  ASSERT_TRUE(mapping.ok());
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  ASSERT_TRUE(target.ok());
  auto tracker = capture::open_tracker(TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok()) << tracker.error().describe();
  vmm.ask("read 1");
  vmm.ask("write 7 65");
  vmm.ask("write 8 66");
  vmm.ask("write 255 67");
  auto written = (*tracker)->collect_and_rearm();
  ASSERT_TRUE(written.ok());
  EXPECT_EQ((PageRuns{{7, 2}, {255, 1}}), *written);
}

TEST_F(Shim, TrackArmsTheMemoryThatIsThere) {
  TestVmm vmm(placeholder, kPages, socket);
  vmm.ask("write 3 65");
  auto client = connect();
  auto mapping = client.track();
  ASSERT_TRUE(mapping.ok()) << mapping.error().describe();
  EXPECT_TRUE(mapping->armed);
  EXPECT_FALSE(mapping->bound);
  EXPECT_EQ("65", vmm.ask("read 3"));
}

TEST_F(Shim, TrackAskedTwiceKeepsWhatWasRecorded) {
  TestVmm vmm(placeholder, kPages, socket);
  auto client = connect();
  auto mapping = client.track();
  ASSERT_TRUE(mapping.ok());
  vmm.ask("write 3 65");
  ASSERT_TRUE(client.track().ok());
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  ASSERT_TRUE(target.ok());
  auto tracker = capture::open_tracker(TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok());
  EXPECT_EQ((PageRuns{{3, 1}}), *(*tracker)->collect_and_rearm());
}

TEST_F(Shim, BindAfterTrackTracksTheImage) {
  TestVmm vmm(placeholder, kPages, socket);
  auto client = connect();
  ASSERT_TRUE(client.track().ok());
  os::Fd fd = open_image();
  auto mapping = client.bind(fd.get());
  ASSERT_TRUE(mapping.ok());
  EXPECT_TRUE(mapping->armed);
  vmm.ask("write 9 65");
  auto target = capture::Target::open(vmm.pid(), {mapping->address, mapping->size_bytes});
  ASSERT_TRUE(target.ok());
  auto tracker = capture::open_tracker(TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok());
  EXPECT_EQ((PageRuns{{9, 1}}), *(*tracker)->collect_and_rearm());
}

TEST_F(Shim, BindAskedTwiceIsRefusedAndChangesNothing) {
  TestVmm vmm(placeholder, kPages, socket);
  auto client = connect();
  os::Fd fd = open_image();
  ASSERT_TRUE(client.bind(fd.get()).ok());
  vmm.ask("write 7 65");
  auto again = client.bind(fd.get());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ("shim.refused", again.error().reason);
  EXPECT_EQ("65", vmm.ask("read 7"));
}

TEST_F(Shim, QueryAfterReconnectTellsWhatIsThere) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  auto bound = connect().bind(fd.get());
  ASSERT_TRUE(bound.ok());
  auto seen = connect().query();
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(*bound, *seen);
}

TEST_F(Shim, ANewConnectionReplacesAnIdleOne) {
  TestVmm vmm(placeholder, kPages, socket);
  auto old = connect();
  ASSERT_TRUE(old.query().ok());
  EXPECT_TRUE(connect().query().ok());
  EXPECT_EQ("shim.unreachable", old.query().error().reason);
}

TEST_F(Shim, AnImageThatIsTooSmallIsRefused) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd small(::open(make_file(folder / "small", kPages - 1, 's').c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ("shim.refused", connect().bind(small.get()).error().reason);
  EXPECT_EQ("0", vmm.ask("read 0"));
}

TEST_F(Shim, ADescriptorThatIsNoFileIsRefused) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd null(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(SPACE_SHIM_WRONG_SIZE, raw_status(request(SPACE_SHIM_BIND, kSize), {null.get()}));
}

TEST_F(Shim, AWrongSizeIsRefused) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  EXPECT_EQ(SPACE_SHIM_WRONG_SIZE, raw_status(request(SPACE_SHIM_BIND, kSize * 2), {fd.get()}));
}

TEST_F(Shim, BindWithoutOrWithTwoDescriptorsIsRefused) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  EXPECT_EQ(SPACE_SHIM_NO_DESCRIPTOR, raw_status(request(SPACE_SHIM_BIND, kSize), {}));
  EXPECT_EQ(SPACE_SHIM_NO_DESCRIPTOR, raw_status(request(SPACE_SHIM_BIND, kSize), {fd.get(), fd.get()}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE,
            raw_status(request(SPACE_SHIM_BIND, kSize), std::vector<int>(6, fd.get())));
}

TEST_F(Shim, MalformedMessagesAreAnsweredAndHarmless) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status(request(SPACE_SHIM_QUERY, 0).substr(0, 23), {}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status(request(SPACE_SHIM_QUERY, 0) + "x", {}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status(request(SPACE_SHIM_QUERY, 0, 2), {}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status(request(4, 0), {}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status("x", {fd.get()}));
  EXPECT_EQ(SPACE_SHIM_BAD_MESSAGE, raw_status(request(SPACE_SHIM_TRACK, 0), {fd.get()}));
  auto seen = connect().query();
  ASSERT_TRUE(seen.ok());
  EXPECT_FALSE(seen->bound);
  EXPECT_FALSE(seen->armed);
}

TEST_F(Shim, DescriptorsOfRefusedRequestsAreClosed) {
  TestVmm vmm(placeholder, kPages, socket);
  auto open_descriptors = [&] {
    return os::list_directory("/proc/" + std::to_string(vmm.pid()) + "/fd").value().size();
  };
  // Counted while one connection is open and answered.
  auto first = connect();
  ASSERT_TRUE(first.query().ok());
  auto before = open_descriptors();
  os::Fd fd = open_image();
  raw(request(SPACE_SHIM_TRACK, 0), {fd.get(), fd.get()});
  raw(request(SPACE_SHIM_BIND, kSize), std::vector<int>(6, fd.get()));
  auto last = connect();
  ASSERT_TRUE(last.query().ok());
  EXPECT_EQ(before, open_descriptors());
}

TEST_F(Shim, AVmmThatMapsThePlaceholderTwiceIsNeverTouched) {
  TestVmm vmm(placeholder, kPages, socket);
  ASSERT_EQ("ok", vmm.ask("map_again"));
  os::Fd fd = open_image();
  EXPECT_EQ("shim.refused", connect().bind(fd.get()).error().reason);
  EXPECT_EQ("shim.refused", connect().track().error().reason);
  EXPECT_EQ("0", vmm.ask("read 0"));
}

TEST_F(Shim, DiscardingGuestMemoryIsRefused) {
  TestVmm vmm(placeholder, kPages, socket);
  os::Fd fd = open_image();
  ASSERT_TRUE(connect().bind(fd.get()).ok());
  ASSERT_EQ("ok", vmm.ask("write 7 65"));
  EXPECT_EQ("refused", vmm.ask("discard 7 1"));
  EXPECT_EQ("refused", vmm.ask("discard 0 256"));
  EXPECT_EQ("65", vmm.ask("read 7"));
}

TEST_F(Shim, AnotherFileAtTheSamePathIsNotThePlaceholder) {
  struct stat before{};
  ASSERT_EQ(0, ::stat(placeholder.c_str(), &before));
  std::string other = make_file(folder / "other", kPages, 0);
  // The environment names `other`; the VMM maps the placeholder.
  TestVmm vmm(other, kPages, socket, Preload::kNo);
  EXPECT_FALSE(os::exists(socket));
  TestVmm preloaded(other, kPages, socket);
  EXPECT_TRUE(os::exists(socket));
}

TEST_F(Shim, AnAddressLongerThanASocketAddressIsReachable) {
  std::string deep = folder /
                     "a-folder-with-a-name-that-is-long-enough-to-make-the-whole-path-longer-than-what-fits-"
                     "into-a-socket-address";
  ASSERT_TRUE(os::make_directory(deep).ok());
  TestVmm vmm(placeholder, kPages, socket);
  ASSERT_EQ(0, ::rename(socket.c_str(), (deep + "/shim.sock").c_str()));
  auto client = ShimClient::connect(deep + "/shim.sock", kSize);
  ASSERT_TRUE(client.ok()) << client.error().describe();
  EXPECT_TRUE(client->query().ok());
}

TEST_F(Shim, AVmmThatEndedIsUnreachable) {
  auto client = [&] {
    TestVmm vmm(placeholder, kPages, socket);
    return connect();
  }();
  EXPECT_EQ("shim.unreachable", client.query().error().reason);
  EXPECT_EQ("shim.unreachable", ShimClient::connect(socket, kSize).error().reason);
}

// What a VMM that a guest has taken over might answer.
class ShimAnswer : public ::testing::Test {
 protected:
  space_shim_answer answer{SPACE_SHIM_ANSWER_MAGIC,
                           SPACE_SHIM_VERSION,
                           SPACE_SHIM_BIND,
                           5,
                           0x7f0000000000,
                           kSize,
                           SPACE_SHIM_OK,
                           SPACE_SHIM_STATE_BOUND | SPACE_SHIM_STATE_ARMED,
                           0,
                           0};
  Result<Mapping> check(std::size_t length = sizeof(space_shim_answer)) {
    return check_answer(&answer, length, SPACE_SHIM_BIND, 5, kSize);
  }
};

TEST_F(ShimAnswer, OfTheRightShapeIsBelieved) {
  auto mapping = check();
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(0x7f0000000000u, mapping->address);
}
TEST_F(ShimAnswer, OfTheWrongLengthIsRefused) {
  EXPECT_FALSE(check(sizeof answer - 1).ok());
  EXPECT_FALSE(check(0).ok());
}
TEST_F(ShimAnswer, ToAnotherRequestIsRefused) {
  answer.id = 4;
  EXPECT_EQ("shim.malformed_answer", check().error().reason);
}
TEST_F(ShimAnswer, WithAnAddressInTheKernelIsRefused) {
  answer.address = 0xffff800000000000;
  EXPECT_EQ("shim.malformed_answer", check().error().reason);
}
TEST_F(ShimAnswer, WithAnAddressThatLeavesUserSpaceIsRefused) {
  answer.address = (std::uint64_t{1} << 47) - 4096;
  EXPECT_EQ("shim.malformed_answer", check().error().reason);
}
TEST_F(ShimAnswer, WithAMisalignedAddressIsRefused) {
  answer.address += 8;
  EXPECT_EQ("shim.malformed_answer", check().error().reason);
}
TEST_F(ShimAnswer, WithAnotherSizeIsRefused) {
  answer.size *= 2;
  EXPECT_EQ("shim.refused", check().error().reason);
}
TEST_F(ShimAnswer, ThatBoundNothingIsRefused) {
  answer.state = 0;
  EXPECT_EQ("shim.malformed_answer", check().error().reason);
}
TEST_F(ShimAnswer, ThatCouldNotArmSaysWhy) {
  answer.state = SPACE_SHIM_STATE_BOUND;
  answer.tracking_errno = ENOSYS;
  answer.step = SPACE_SHIM_STEP_OPEN;
  auto mapping = check();
  ASSERT_TRUE(mapping.ok());
  EXPECT_FALSE(mapping->armed);
  EXPECT_THAT(mapping->tracking_problem, ::testing::HasSubstr("userfaultfd"));
}
TEST_F(ShimAnswer, OfRandomBytesIsNeverBelieved) {
  os::SeededRandom random(1);
  std::array<std::byte, sizeof(space_shim_answer)> noise;
  int believed = 0;
  for (int i = 0; i < 10'000; ++i) {
    random.fill(noise);
    believed += check_answer(noise.data(), noise.size(), SPACE_SHIM_BIND, 5, kSize).ok() ? 1 : 0;
  }
  EXPECT_EQ(0, believed);
}

}  // namespace
}  // namespace space::node::shim
