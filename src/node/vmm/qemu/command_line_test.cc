// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/qemu/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/size.h"
#include "node/vmm/qemu/qcow2.h"

namespace space::node::vmm::qemu {
namespace {

CommandLine sample() {
  CommandLine input;
  input.program = "/usr/bin/qemu-system-x86_64";
  input.resources = {2, 512 * kMiB, 8 * kGiB};
  input.hostname = "box";
  input.tsc_khz = 2'596'132;
  input.channel_fd = 5;
  input.qmp_fd = 6;
  input.console_fd = 7;
  return input;
}

// The values of an option that may come several times.
std::vector<std::string> values(const std::vector<std::string>& line, const std::string& option) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == option) found.push_back(line[i + 1]);
  }
  return found;
}
bool any_has(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const auto& text) { return text.find(part) != std::string::npos; });
}

TEST(QemuCommandLine, MapsGuestMemoryPrivately) {
  auto objects = values(command_line(sample()), "-object");
  EXPECT_TRUE(any_has(objects, "memory-backend-file,id=m0,share=off"));
  EXPECT_TRUE(any_has(objects, "size=512M,mem-path=/slot/memory"));
  EXPECT_TRUE(any_has(values(command_line(sample()), "-machine"), "memory-backend=m0"));
}

TEST(QemuCommandLine, ListensOnlyOnWhatItInherits) {
  auto line = command_line(sample());
  auto chardevs = values(line, "-chardev");
  EXPECT_EQ(chardevs, (std::vector<std::string>{"socket,id=qmp,fd=6,server=on,wait=off",
                                                "socket,id=console,fd=7,server=on,wait=off",
                                                "socket,id=channel,fd=5,server=on,wait=off"}));
  EXPECT_TRUE(any_has(values(line, "-device"), "virtserialport,chardev=channel,name=space.0"));
}

TEST(QemuCommandLine, DeniesWhatAMachineDoesNotNeed) {
  auto line = command_line(sample());
  EXPECT_EQ(
      values(line, "-sandbox"),
      std::vector<std::string>{"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"});
  for (const char* flag : {"-nodefaults", "-no-user-config", "-no-reboot"}) {
    EXPECT_NE(std::find(line.begin(), line.end(), flag), line.end()) << flag;
  }
  EXPECT_TRUE(values(line, "-netdev").empty());
}

TEST(QemuCommandLine, NeverStopsTheMachineOverItsDisk) {
  EXPECT_TRUE(any_has(values(command_line(sample()), "-device"),
                      "virtio-blk-device,drive=disk,werror=report,rerror=report"));
}

TEST(QemuCommandLine, OpensTheTemplateReadOnlyBelowALayer) {
  auto disks = values(command_line(sample()), "-blockdev");
  EXPECT_TRUE(any_has(disks, "node-name=template-file,read-only=on"));
  EXPECT_TRUE(any_has(
      disks, "node-name=layer-file,locking=off,aio=threads,discard=unmap,cache.direct=on,cache.no-flush=on"));
  CommandLine without = sample();
  without.disk_cache = DiskCache::kHost;
  EXPECT_TRUE(any_has(values(command_line(without), "-blockdev"), "cache.direct=off,cache.no-flush=on"));
}

TEST(QemuCommandLine, BoundsTranslatedCode) {
  EXPECT_EQ(values(command_line(sample()), "-accel"),
            std::vector<std::string>{"tcg,thread=multi,tb-size=128"});
  CommandLine native = sample();
  native.acceleration = Acceleration::kKvm;
  EXPECT_EQ(values(command_line(native), "-accel"), std::vector<std::string>{"kvm"});
  EXPECT_EQ(values(command_line(native), "-cpu"), std::vector<std::string>{"host"});
}

TEST(KernelArguments, TellTheGuestWhatItCannotFindOut) {
  std::string words = kernel_arguments(sample());
  for (const char* word : {"console=ttyS0", "reboot=t", "panic=-1", "no_timer_check", "tsc_early_khz=2596132",
                           "space.hostname=box"}) {
    EXPECT_NE((" " + words + " ").find(std::string(" ") + word + " "), std::string::npos) << word;
  }
  EXPECT_EQ(words.find("space.init"), std::string::npos);
  CommandLine systemd = sample();
  systemd.init = "systemd";
  systemd.tsc_khz = 0;
  EXPECT_NE(kernel_arguments(systemd).find(" space.init=systemd"), std::string::npos);
  EXPECT_EQ(kernel_arguments(systemd).find("tsc_early_khz"), std::string::npos);
}

// ---- the layer ----

std::uint64_t big_endian(const Bytes& image, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<std::uint64_t>(image[at + i]);
  return value;
}

TEST(Overlay, HasAHeaderThatPointsAtTheTemplate) {
  auto image = overlay_image(8 * kGiB, "/template/disk.img");
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(big_endian(*image, 0, 4), 0x514649fbU);
  EXPECT_EQ(big_endian(*image, 4, 4), 3U);
  EXPECT_EQ(big_endian(*image, 24, 8), 8 * kGiB);
  std::size_t name_at = big_endian(*image, 8, 8);
  std::size_t name_length = big_endian(*image, 16, 4);
  EXPECT_EQ(as_text(ByteView(*image).subspan(name_at, name_length)), "/template/disk.img");
  EXPECT_EQ(image->size() % kClusterBytes, 0U);
}

TEST(Overlay, CountsAReferenceForEveryClusterItHas) {
  for (std::uint64_t disk : {std::uint64_t{512}, 8 * kGiB, 1024 * kGiB, kMaxOverlayBytes}) {
    auto image = overlay_image(disk, "/t");
    ASSERT_TRUE(image.ok());
    std::uint64_t clusters = image->size() / kClusterBytes;
    std::uint64_t block = big_endian(*image, big_endian(*image, 48, 8), 8);
    for (std::uint64_t i = 0; i < clusters; ++i) EXPECT_EQ(big_endian(*image, block + 2 * i, 2), 1U);
    EXPECT_EQ(big_endian(*image, block + 2 * clusters, 2), 0U);
    // The level-1 table covers the disk.
    EXPECT_GE(big_endian(*image, 36, 4) * (kClusterBytes / 8) * kClusterBytes, disk);
  }
}

TEST(Overlay, RefusesImpossibleSizes) {
  for (std::uint64_t disk : {std::uint64_t{0}, std::uint64_t{513}, kMaxOverlayBytes + 512}) {
    EXPECT_EQ(overlay_image(disk, "/t").error().field, "disk_bytes") << disk;
  }
}

TEST(Overlay, MayGrowToAllDataAndLittleMore) {
  EXPECT_GT(overlay_limit_bytes(8 * kGiB), 8 * kGiB);
  EXPECT_LT(overlay_limit_bytes(8 * kGiB), 8 * kGiB + 8 * kGiB / 32);
}

}  // namespace
}  // namespace space::node::vmm::qemu
