// SPDX-License-Identifier: Apache-2.0
// The whole memory side on an unmodified QEMU: a guest boots, is captured as a whole while it works, is
// restored from that into an empty slot, captured again and again while it writes memory and reads its disk
// by direct I/O, and what was put together from the rounds equals its memory each time and runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/os/file.h"
#include "lib/os/random.h"
#include "node/capture/e2e/qemu_vm.h"
#include "node/capture/memory_capture.h"
#include "node/capture/present_pages.h"
#include "node/capture/tracker_probe.h"
#include "node/shim/shim_client.h"

namespace space::node::capture::e2e {
namespace {

// Memory as a store would have it, in a file that can be bound to a slot.
class StoredImage {
 public:
  explicit StoredImage(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    EXPECT_EQ(0, ::ftruncate(fd_.get(), static_cast<off_t>(kGuestBytes)));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void apply(const CapturedMemory& batch) {
    for (const BatchEntry& entry : batch.index()) {
      EXPECT_EQ(static_cast<ssize_t>(kPageBytes), ::pwrite(fd_.get(), batch.content(entry), kPageBytes,
                                                           static_cast<off_t>(entry.page * kPageBytes)));
    }
  }
  void copy_from(const StoredImage& other) {
    off_t in = 0;
    off_t out = 0;
    for (std::uint64_t left = kGuestBytes; left > 0;) {
      ssize_t done = ::copy_file_range(other.fd(), &in, fd_.get(), &out, left, 0);
      ASSERT_GT(done, 0);
      left -= static_cast<std::uint64_t>(done);
    }
  }
  // Pages in which it differs from the memory of a process.
  PageRuns differences(pid_t pid, RamRange range) const {
    auto memory = os::open_file("/proc/" + std::to_string(pid) + "/mem", O_RDONLY).value();
    std::vector<char> ours(1 << 20);
    std::vector<char> theirs(1 << 20);
    PageRuns out;
    for (std::uint64_t at = 0; at < range.size_bytes; at += ours.size()) {
      EXPECT_EQ(static_cast<ssize_t>(ours.size()),
                ::pread(fd_.get(), ours.data(), ours.size(), static_cast<off_t>(at)));
      EXPECT_EQ(static_cast<ssize_t>(theirs.size()),
                ::pread(memory.get(), theirs.data(), theirs.size(), static_cast<off_t>(range.address + at)));
      for (std::uint64_t page = 0; page < ours.size(); page += kPageBytes) {
        if (std::memcmp(ours.data() + page, theirs.data() + page, kPageBytes) != 0)
          append_run(out, (at + page) / kPageBytes, 1);
      }
    }
    return out;
  }

 private:
  os::Fd fd_;
};

class QemuCapture : public ::testing::Test {
 protected:
  std::string folder = [] {
    char name[] = "/tmp/space-capture-e2e-XXXXXX";
    return std::string(::mkdtemp(name));
  }();
  SystemClock clock;

  void SetUp() override {
    std::string command =
        "exec '" CAPTURE_E2E_SOURCE "/make_guest.sh' '" + folder + "' '" CAPTURE_E2E_CACHE "'";
    const char* argv[] = {"/bin/bash", "-c", command.c_str(), nullptr};
    pid_t pid = ::fork();
    if (pid == 0) {
      ::execv(argv[0], const_cast<char**>(argv));
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_EQ(0, status) << "the test's guest can't be made; see the message of make_guest.sh above";
    // 8 MiB that never repeat, for direct reads into guest memory.
    os::SeededRandom random(7);
    std::vector<std::byte> content(8 << 20);
    random.fill(content);
    os::Fd disk(::open((folder + "/disk.img").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(os::write_all(disk.get(), content).ok());
  }
  void TearDown() override { os::remove_tree(folder).ignore("test"); }

  // A snapshot of a guest that works meanwhile. The guest stays stopped.
  CapturedMemory capture(QemuVm& vm, const Target& target, DirtyLedger& ledger, const std::string& devices,
                         CutReport& cut, PreCopyReport& rounds) {
    PageCopier copier(target, clock);
    auto arena =
        CaptureArena::create(target.range().pages() * (kPageBytes + sizeof(BatchEntry)) + kPageBytes);
    MemoryCapture capture(target, ledger, copier, std::move(arena).value(), {}, clock);
    rounds = capture.copy_while_running().value();
    vm.qmp("stop");
    cut = capture.copy_while_stopped().value();
    vm.save_devices(devices);
    auto batch = capture.finish().value();
    capture.commit();
    return batch;
  }
};

TEST_F(QemuCapture, RoundsPutTogetherEqualMemoryAndRunAgain) {
  StoredImage base(folder + "/base.img");
  CutReport cut;
  PreCopyReport rounds;
  {
    QemuVm vm(folder, "cold", Start::kBoot);
    ASSERT_EQ("up", vm.line()) << os::read_file(folder + "/cold.console").value();
    auto mapping = shim::ShimClient::connect(vm.shim_socket(), kGuestBytes).value().track();
    ASSERT_TRUE(mapping.ok()) << mapping.error().describe();
    ASSERT_TRUE(mapping->armed) << mapping->tracking_problem;
    vm.say("echo kept > /tmp/f");
    Target target = Target::open(vm.pid(), {mapping->address, mapping->size_bytes}).value();
    DirtyLedger ledger(target, TrackerRoster(probe_trackers()).open_best(target).value());
    ASSERT_EQ(TrackerKind::kWriteProtect, ledger.tracker());
    auto batch = capture(vm, target, ledger, folder + "/base.state", cut, rounds);
    EXPECT_TRUE(batch.everything);
    base.apply(batch);
    EXPECT_EQ(PageRuns{}, base.differences(vm.pid(), target.range()));
  }

  StoredImage now(folder + "/now.img");
  now.copy_from(base);
  std::string said;
  {
    QemuVm vm(folder, "slot", Start::kWaitForState);
    auto mapping = shim::ShimClient::connect(vm.shim_socket(), kGuestBytes).value().bind(base.fd());
    ASSERT_TRUE(mapping.ok()) << mapping.error().describe();
    ASSERT_TRUE(mapping->armed) << mapping->tracking_problem;
    Target target = Target::open(vm.pid(), {mapping->address, mapping->size_bytes}).value();
    DirtyLedger ledger(target, open_tracker(TrackerKind::kWriteProtect, target).value());
    ASSERT_TRUE(ledger.establish().ok());
    vm.load_devices_and_run(folder + "/base.state");
    ASSERT_EQ("kept", vm.say("cat /tmp/f"));
    EXPECT_GT(touched_pages(target).value().size(), 0u);
    // Reads of the disk, past its cache and into it, that go on through every snapshot.
    vm.say(
        "(while true; do dd if=/dev/vda of=/dev/null bs=256k iflag=direct; dd if=/dev/vda of=/tmp/d bs=64k "
        "count=64; "
        "echo 1 > /proc/sys/vm/drop_caches; done) >/dev/null 2>&1 &");
    for (int round = 0; round < 4; ++round) {
      said = vm.say("dd if=/dev/urandom of=/tmp/r bs=64k count=" + std::to_string(1 + 60 * round) +
                    " 2>/dev/null; md5sum /tmp/r");
      auto batch = capture(vm, target, ledger, folder + "/now.state", cut, rounds);
      EXPECT_FALSE(batch.everything);
      EXPECT_GT(batch.entries, 0u);
      now.apply(batch);
      auto different = now.differences(vm.pid(), target.range());
      ASSERT_EQ(PageRuns{}, different) << count_pages(different) << " pages differ in round " << round;
      std::printf("round %d: %lu pages, %u rounds before (%s), cut %lu pages: scan %ld us, copy %ld us\n",
                  round, static_cast<unsigned long>(batch.entries), rounds.rounds,
                  std::string(to_string(rounds.reason)).c_str(), static_cast<unsigned long>(cut.copied_pages),
                  static_cast<long>(cut.scan_time.count()), static_cast<long>(cut.copy_time.count()));
      vm.qmp("cont");
    }
  }

  QemuVm again(folder, "again", Start::kWaitForState);
  ASSERT_TRUE(shim::ShimClient::connect(again.shim_socket(), kGuestBytes).value().bind(now.fd()).ok());
  again.load_devices_and_run(folder + "/now.state");
  EXPECT_EQ("kept", again.say("cat /tmp/f"));
  EXPECT_EQ(said, again.say("md5sum /tmp/r"));
}

}  // namespace
}  // namespace space::node::capture::e2e
