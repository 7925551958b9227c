// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/qemu/command_line.h"

#include "lib/base/size.h"

namespace space::node::vmm::qemu {
namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

std::string listening_chardev(const char* id, int fd) {
  return std::string("socket,id=") + id + ",fd=" + std::to_string(fd) + ",server=on,wait=off";
}

}  // namespace

std::string kernel_arguments(const CommandLine& input) {
  // reboot=t and panic=-1: the end of the guest is a reset, which -no-reboot turns into QEMU's end.
  std::string words = "console=ttyS0 quiet reboot=t panic=-1 no_timer_check";
  // A guest under load can fail to calibrate its clock against the emulated timer, and then hangs.
  if (input.tsc_khz != 0) words += " tsc_early_khz=" + number(input.tsc_khz);
  // There is no speculation in translated code to be defended against.
  if (input.acceleration == Acceleration::kTcg) words += " mitigations=off";
  words += " space.hostname=" + (input.hostname.empty() ? std::string("sandbox") : input.hostname);
  if (!input.init.empty()) words += " space.init=" + input.init;
  return words;
}

std::vector<std::string> command_line(const CommandLine& input) {
  std::string memory_mib = number(input.resources.memory_bytes / kMiB);
  bool kvm = input.acceleration == Acceleration::kKvm;
  // The layer belongs to one incarnation that is discarded with its VMM: a flush orders, it does not have to
  // reach the disk. Bypassing the page cache keeps a guest that writes a lot from filling the host's memory
  // with dirty pages. The template below it is read through the page cache, which all sandboxes share.
  std::string layer_cache = std::string("cache.direct=") +
                            (input.disk_cache == DiskCache::kDirect ? "on" : "off") + ",cache.no-flush=on";
  return {
      input.program,
      "-name",
      "sandbox",
      "-nodefaults",
      "-no-user-config",
      "-nographic",
      "-no-reboot",
      // No room for programs, rights or priorities beyond what it starts with; our own filter lies below.
      "-sandbox",
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
      // ACPI tells the guest where its devices are: Debian's kernel takes them from there only.
      "-machine",
      "microvm,acpi=on,x-option-roms=off,memory-backend=m0",
      "-accel",
      kvm ? "kvm" : "tcg,thread=multi,tb-size=" + number(kTranslationBufferMib),
      "-cpu",
      kvm ? "host" : "max",
      "-smp",
      number(input.resources.vcpus),
      "-m",
      memory_mib + "M",
      // A private mapping of a file: what the guest writes stays in memory, what it only reads is shared by
      // everyone who maps the same file. Snapshots are taken from it.
      "-object",
      std::string("memory-backend-file,id=m0,share=off,merge=off,dump=off,prealloc=off,size=") + memory_mib +
          "M,mem-path=" + kMemoryPath,
      "-global",
      "migration.send-configuration=off",
      "-chardev",
      listening_chardev("qmp", input.qmp_fd),
      "-mon",
      "chardev=qmp,mode=control",
      "-chardev",
      listening_chardev("console", input.console_fd),
      "-serial",
      "chardev:console",
      "-chardev",
      listening_chardev("channel", input.channel_fd),
      "-device",
      "virtio-serial-device",
      "-device",
      "virtserialport,chardev=channel,name=space.0",
      "-object",
      "rng-random,id=entropy,filename=/dev/urandom",
      "-device",
      "virtio-rng-device,rng=entropy",
      "-blockdev",
      std::string("driver=file,node-name=template-file,read-only=on,locking=off,aio=threads,filename=") +
          kDiskPath,
      "-blockdev",
      "driver=raw,node-name=template,read-only=on,file=template-file",
      "-blockdev",
      std::string("driver=file,node-name=layer-file,locking=off,aio=threads,discard=unmap,") + layer_cache +
          ",filename=" + kOverlayPath,
      "-blockdev",
      "driver=qcow2,node-name=disk,file=layer-file,backing=template,discard=unmap," + layer_cache,
      // A full or broken host disk is an I/O error in the guest; it never stops the machine.
      "-device",
      "virtio-blk-device,drive=disk,werror=report,rerror=report",
      "-kernel",
      kKernelPath,
      "-initrd",
      kInitramfsPath,
      "-append",
      kernel_arguments(input),
  };
}

}  // namespace space::node::vmm::qemu
