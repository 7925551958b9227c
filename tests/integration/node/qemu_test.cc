// SPDX-License-Identifier: Apache-2.0
// Real guests: boot, confinement as the kernel shows it, recovery, the end.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "api/guest_generated.h"
#include "integration/node/qemu_fixture.h"
#include "lib/os/file.h"
#include "lib/wire/message.h"

namespace space::node::testing {
namespace fs = std::filesystem;
namespace {

std::string status_field(std::uint32_t pid, const std::string& name) {
  auto text = os::read_file("/proc/" + std::to_string(pid) + "/status");
  if (!text.ok()) return "gone";
  auto at = text->find("\n" + name + ":");
  if (at == std::string::npos) return "absent";
  at = text->find_first_not_of(" \t", at + name.size() + 2);
  return text->substr(at, text->find('\n', at) - at);
}

std::string link_of(const std::string& path) {
  std::error_code failed;
  return fs::read_symlink(path, failed).string();
}

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

class NodeWithQemu : public QemuFixture {};

TEST_F(NodeWithQemu, BootsAGuestToItsDaemon) {
  auto info = boot(new_id());
  ASSERT_TRUE(info.ok()) << info.error().describe();
  EXPECT_EQ(info->backend, "qemu");
  EXPECT_EQ(info->acceleration, "tcg");
  EXPECT_GT(info->kernel_boot_us, 0U);
}

TEST_F(NodeWithQemu, TheMachineHasNoRights) {
  auto info = boot(new_id());
  ASSERT_TRUE(info.ok()) << info.error().describe();
  std::uint32_t pid = info->vmm_pid;
  EXPECT_EQ(status_field(pid, "Uid"), "650016\t650016\t650016\t650016");
  EXPECT_EQ(status_field(pid, "Gid"), "650016\t650016\t650016\t650016");
  EXPECT_EQ(status_field(pid, "Groups"), "");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_EQ(status_field(pid, set), "0000000000000000") << set;
  EXPECT_EQ(status_field(pid, "NoNewPrivs"), "1");
  EXPECT_EQ(status_field(pid, "Seccomp"), "2");
  EXPECT_EQ(status_field(pid, "Seccomp_filters"), "2");  // ours and QEMU's
  EXPECT_EQ(status_field(pid, "THP_enabled"), "0");
  for (const char* space : {"mnt", "pid", "net", "ipc", "uts"}) {
    EXPECT_NE(link_of("/proc/" + std::to_string(pid) + "/ns/" + space),
              link_of(std::string("/proc/self/ns/") + space))
        << space;
  }
}

TEST_F(NodeWithQemu, TheMachineSeesOnlyItsSlot) {
  auto info = boot(new_id());
  ASSERT_TRUE(info.ok()) << info.error().describe();
  std::string root = "/proc/" + std::to_string(info->vmm_pid) + "/root";
  EXPECT_EQ(names_in(root + "/slot"),
            (std::set<std::string>{"overlay.qcow2", "memory", "channel.sock", "qmp.sock", "console.sock"}));
  EXPECT_EQ(names_in(root + "/dev"), (std::set<std::string>{"null", "zero", "urandom"}));
  EXPECT_EQ(names_in(root + "/template"), (std::set<std::string>{"disk.img", "vmlinuz", "initramfs"}));
  auto top = names_in(root);
  for (const char* absent : {"proc", "sys", "etc", "home", "root", "tmp", "var", "run"})
    EXPECT_FALSE(top.contains(absent)) << absent;
  // Nothing of the host's mounts is left, and only the slot and the memory-only /dev may ever be written.
  auto mounts = os::read_file("/proc/" + std::to_string(info->vmm_pid) + "/mountinfo");
  ASSERT_TRUE(mounts.ok());
  EXPECT_EQ(std::count(mounts->begin(), mounts->end(), '\n'), 6);
}

TEST_F(NodeWithQemu, TheMachineCanWriteOnlyItsTwoFiles) {
  auto info = boot(new_id());
  ASSERT_TRUE(info.ok()) << info.error().describe();
  std::string slot = node_dir() + "/sandboxes/" + info->sandbox + "/slot";
  for (const auto& entry : fs::recursive_directory_iterator(slot)) {
    struct stat found{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &found), 0);
    std::string name = entry.path().filename().string();
    bool its_own = name == "overlay.qcow2" || name == "memory";
    EXPECT_EQ(found.st_uid, its_own ? 650'016U : 0U) << name;
    EXPECT_EQ(found.st_mode & 0022, 0U) << name;
  }
}

TEST_F(NodeWithQemu, TheMachineIsInItsControlGroups) {
  auto info = boot(new_id());
  ASSERT_TRUE(info.ok()) << info.error().describe();
  auto groups = os::read_file("/proc/" + std::to_string(info->vmm_pid) + "/cgroup");
  ASSERT_TRUE(groups.ok());
  std::size_t found = 0;
  for (std::size_t at = 0;
       (at = groups->find("space-" + node_id() + "/" + info->sandbox, at)) != std::string::npos; ++at)
    ++found;
  EXPECT_GE(found, 1U) << *groups;
}

TEST_F(NodeWithQemu, AGuestThatShutsDownIsReportedAsSuch) {
  std::string id = new_id();
  ASSERT_TRUE(boot(id).ok());
  auto event = ended(id, [&] {
    ask_guest(id, wire::pack_body<guestapi::RequestT>(guestapi::ShutdownT{}))
        .ignore("the channel may break first");
  });
  ASSERT_TRUE(event.ok()) << event.error().describe();
  EXPECT_EQ(event->reason, "node.guest_shutdown") << event->detail;
  expect_nothing_left();
}

TEST_F(NodeWithQemu, GuestsSurviveTheDeathOfNodeAndLink) {
  std::string id = new_id();
  auto before = boot(id);
  ASSERT_TRUE(before.ok()) << before.error().describe();
  node_.end(SIGKILL);
  link_.end(SIGKILL);
  start_link();
  start_node();
  EXPECT_EQ(recovered().adopted, std::vector<std::string>{id});
  auto after = list();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].vmm_pid, before->vmm_pid);
  EXPECT_TRUE(after[0].adopted);
  EXPECT_TRUE(ask_guest(id, wire::pack_body<guestapi::RequestT>(guestapi::HelloT{})).ok());
  ASSERT_TRUE(destroy(id).ok());
  expect_nothing_left();
}

}  // namespace
}  // namespace space::node::testing
