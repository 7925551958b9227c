// SPDX-License-Identifier: Apache-2.0
#include "node/admission.h"

#include <gtest/gtest.h>

namespace space::node {
namespace {

constexpr std::uint64_t kOverhead = 256 * kMiB;
constexpr std::uint64_t kTemplateDisk = 8 * kGiB;
constexpr Machine kMachine{.cpus = 2,
                           .memory_bytes = 8 * kGiB,
                           .memory_reserve_bytes = kGiB,
                           .disk_reserve_bytes = 2 * kGiB,
                           .max_sandboxes = 3};
constexpr vmm::Resources kUsual{1, 512 * kMiB, 8 * kGiB};

std::string refused(vmm::Resources wanted) {
  auto outcome = validate(wanted, kOverhead, kTemplateDisk, kMachine);
  return outcome.ok() ? "" : outcome.error().reason + " " + outcome.error().field;
}

TEST(Validate, AcceptsUpToWhatTheMachineHas) {
  EXPECT_EQ(refused(kUsual), "");
  EXPECT_EQ(refused({2, 7 * kGiB - kOverhead, kMaxDiskBytes}), "");
}

TEST(Validate, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(refused({0, 512 * kMiB, 8 * kGiB}), "node.bad_vcpus vcpus");
  EXPECT_EQ(refused({3, 512 * kMiB, 8 * kGiB}), "node.bad_vcpus vcpus");
  EXPECT_EQ(refused({1, 0, 8 * kGiB}), "node.memory_too_small memory_bytes");
  EXPECT_EQ(refused({1, kMiB, 8 * kGiB}), "node.memory_too_small memory_bytes");
  EXPECT_EQ(refused({1, 512 * kMiB + 1, 8 * kGiB}), "node.memory_unaligned memory_bytes");
  EXPECT_EQ(refused({1, 7 * kGiB, 8 * kGiB}), "node.memory_too_large memory_bytes");
  EXPECT_EQ(refused({1, ~std::uint64_t{0} / kMiB * kMiB, 8 * kGiB}), "node.memory_too_large memory_bytes");
  EXPECT_EQ(refused({1, 512 * kMiB, kGiB}), "node.disk_too_small disk_bytes");
  EXPECT_EQ(refused({1, 512 * kMiB, kMaxDiskBytes + 4096}), "node.disk_too_large disk_bytes");
  EXPECT_EQ(refused({1, 512 * kMiB, 8 * kGiB + 1}), "node.disk_unaligned disk_bytes");
}

TEST(Validate, AMachineSmallerThanItsReserveTakesNothing) {
  Machine tiny = kMachine;
  tiny.memory_bytes = 512 * kMiB;
  EXPECT_EQ(validate(kUsual, kOverhead, kTemplateDisk, tiny).error().reason, "node.memory_too_large");
}

TEST(Admit, CountsWhatIsPromisedWithOverheads) {
  Load load{6 * kGiB, 100 * kGiB, 1};
  EXPECT_TRUE(admit(kUsual, kOverhead, kMachine, load).ok());
  load.memory_committed_bytes = 7 * kGiB - 512 * kMiB;
  EXPECT_EQ(admit(kUsual, kOverhead, kMachine, load).error().reason, "node.no_memory");
  load.memory_committed_bytes = 100 * kGiB;
  EXPECT_EQ(admit(kUsual, kOverhead, kMachine, load).error().code, Code::kResourceExhausted);
}

TEST(Admit, KeepsADiskReserve) {
  EXPECT_EQ(admit(kUsual, kOverhead, kMachine, {0, 2 * kGiB - 1, 0}).error().reason, "node.no_disk");
}

TEST(Admit, CountsSandboxes) {
  EXPECT_EQ(admit(kUsual, kOverhead, kMachine, {0, 100 * kGiB, 3}).error().reason, "node.too_many_sandboxes");
}

}  // namespace
}  // namespace space::node
