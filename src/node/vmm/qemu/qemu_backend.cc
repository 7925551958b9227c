// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/qemu/qemu_backend.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/size.h"
#include "lib/os/file.h"
#include "node/vmm/qemu/command_line.h"
#include "node/vmm/qemu/firmware.h"
#include "node/vmm/qemu/qcow2.h"

namespace space::node::vmm::qemu {
namespace {

// Beside the guest's memory: the program, its heap and stacks. An allowance, not a measurement: page cache
// that the machine caused counts too, but the kernel takes that back.
constexpr std::uint64_t kProgramBytes = 96 * kMiB;
constexpr std::uint64_t kBytesPerVcpu = 16 * kMiB;
// Main loop, RCU, signals, and up to 64 disk workers, which QEMU can't do without once it wants one more.
constexpr std::uint32_t kTasks = 96;
constexpr std::uint64_t kMaxOpenFiles = 256;

class QemuBackend final : public Backend {
 public:
  QemuBackend(QemuOptions options, slot::JailRoot root, bool direct_io)
      : options_(std::move(options)), root_(std::move(root)), direct_io_(direct_io) {}

  [[nodiscard]] std::string name() const override { return "qemu"; }

  [[nodiscard]] Capabilities capabilities() const override {
    Capabilities capabilities;
    capabilities.architecture = "x86_64";
    capabilities.isolation = Isolation::kMicroVm;
    capabilities.acceleration = options_.acceleration;
    return capabilities;
  }

  [[nodiscard]] std::uint64_t overhead_bytes(const Resources& resources) const override {
    std::uint64_t translator = options_.acceleration == Acceleration::kTcg ? kTranslationBufferMib * kMiB : 0;
    // Page tables of guest and VMM grow with memory.
    return kProgramBytes + translator + kBytesPerVcpu * resources.vcpus + resources.memory_bytes / 64;
  }

  [[nodiscard]] std::uint32_t max_tasks(const Resources& resources) const override {
    return kTasks + resources.vcpus;
  }

  Result<void> fill(const MachineSpec& spec, const slot::Slot& slot) override {
    SPACE_TRY(Bytes image, overlay_image(spec.resources.disk_bytes, kDiskPath));
    SPACE_CHECK_OK(slot::make_slot_file(slot, "overlay.qcow2", 0));
    SPACE_TRY(os::Fd overlay, os::open_file(slot.file("overlay.qcow2"), O_WRONLY));
    SPACE_CHECK_OK(os::write_all(overlay.get(), image));
    return slot::make_slot_file(slot, "memory", spec.resources.memory_bytes);
  }

  Result<slot::JailProcess> start(const MachineSpec& spec, const slot::Slot& slot,
                                  std::vector<os::Fd> sockets) override {
    std::vector<int> inherited;
    for (const auto& socket : sockets) inherited.push_back(socket.get());
    return slot::start_jail(options_.self, plan(spec, slot), inherited);
  }

 private:
  [[nodiscard]] slot::JailPlan plan(const MachineSpec& spec, const slot::Slot& slot) const {
    slot::JailPlan plan;
    plan.root = root_.path;
    using Access = slot::Bind::Access;
    plan.binds = {{slot.directory(), "/slot", Access::kReadWrite},
                  {spec.boot.disk, kDiskPath, Access::kReadOnly},
                  {spec.boot.kernel, kKernelPath, Access::kReadOnly},
                  {spec.boot.initramfs, kInitramfsPath, Access::kReadOnly}};
    plan.devices = {"null", "zero", "urandom"};
    if (options_.acceleration == Acceleration::kKvm) plan.devices.emplace_back("kvm");
    plan.uid = slot.uid;
    plan.gid = slot.uid;
    plan.limits = {{RLIMIT_NOFILE, kMaxOpenFiles},
                   {RLIMIT_NPROC, max_tasks(spec.resources)},
                   {RLIMIT_MEMLOCK, 0},
                   {RLIMIT_MSGQUEUE, 0},
                   // Whatever happens in the VMM, its two files can't outgrow this.
                   {RLIMIT_FSIZE,
                    std::max(overlay_limit_bytes(spec.resources.disk_bytes), spec.resources.memory_bytes)}};
    CommandLine line;
    line.program = options_.qemu;
    line.acceleration = options_.acceleration;
    line.resources = spec.resources;
    line.hostname = spec.hostname;
    line.init = spec.init;
    line.tsc_khz = options_.tsc_khz;
    line.disk_cache = direct_io_ ? DiskCache::kDirect : DiskCache::kHost;
    line.channel_fd = slot::kFirstInheritedFd;
    line.qmp_fd = slot::kFirstInheritedFd + 1;
    line.console_fd = slot::kFirstInheritedFd + 2;
    plan.argv = command_line(line);
    std::string path;
    for (const auto& directory : root_.library_dirs) path += (path.empty() ? "" : ":") + directory;
    plan.environment = {"LD_LIBRARY_PATH=" + path, "LC_ALL=C"};
    return plan;
  }

  QemuOptions options_;
  slot::JailRoot root_;
  bool direct_io_;
};

}  // namespace

bool supports_direct_io(const std::string& directory) {
  os::Fd probe(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  return probe.valid();
}

Result<std::unique_ptr<Backend>> open_qemu(const QemuOptions& options) {
  QemuOptions complete = options;
  if (complete.qemu.empty()) {
    SPACE_TRY(complete.qemu, find_qemu());
  }
  SPACE_TRY(auto files, runtime_files(complete.qemu, complete.acceleration));
  slot::JailRootContents contents;
  contents.programs = files.programs;
  contents.files = files.data;
  contents.mount_dirs = {"/slot", "/dev", "/template"};
  contents.mount_files = {kDiskPath, kKernelPath, kInitramfsPath};
  SPACE_TRY(auto root, slot::prepare_jail_root(complete.node_dir, contents));
  bool direct_io = supports_direct_io(complete.node_dir);
  return std::unique_ptr<Backend>(
      std::make_unique<QemuBackend>(std::move(complete), std::move(root), direct_io));
}

}  // namespace space::node::vmm::qemu
