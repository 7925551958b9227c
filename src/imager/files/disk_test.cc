// SPDX-License-Identifier: Apache-2.0
#include "imager/files/disk.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "imager/files/testing/memory_snapshot.h"
#include "lib/os/file.h"

namespace space::imager::files {
namespace {

constexpr std::uint64_t kDiskBytes = 4u << 20;

struct DiskTest : ::testing::Test {
  os::SystemRandom random;
  std::string spool;
  std::shared_ptr<MemorySnapshot> base = std::make_shared<MemorySnapshot>(kDiskBytes, store::kBlockBytes);
  std::unique_ptr<Disk> disk;
  Bytes model = Bytes(kDiskBytes);

  void SetUp() override {
    char pattern[] = "/tmp/space-disk-XXXXXX";
    spool = ::mkdtemp(pattern);
    std::mt19937 generator(1);
    for (auto& b : base->content) b = static_cast<std::byte>(generator());
    model = base->content;
    disk = *Disk::create(spool, kDiskBytes, base, random);
  }
  void TearDown() override {
    EXPECT_TRUE(os::list_directory(spool)->empty());  // layers have no names
    os::remove_tree(spool).ignore("test clean-up");
  }
  void expect_equal(const Bytes& wanted, const char* when) {
    Bytes have(kDiskBytes);
    ASSERT_TRUE(disk->read(0, have).ok());
    ASSERT_EQ(have == wanted, true) << when;
  }
  void write(std::uint64_t offset, const Bytes& data) {
    ASSERT_TRUE(disk->write(offset, data).ok());
    std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  // The base plus what frozen_blocks gives, as the store would have it.
  std::shared_ptr<MemorySnapshot> seal(CutNumber cut, const MemorySnapshot& below) {
    auto sealed = std::make_shared<MemorySnapshot>(kDiskBytes, store::kBlockBytes);
    sealed->content = below.content;
    EXPECT_TRUE(disk->frozen_blocks(cut,
                                    [&](std::uint64_t block, ByteView content) {
                                      std::copy(content.begin(), content.end(),
                                                sealed->content.begin() +
                                                    static_cast<std::ptrdiff_t>(block * store::kBlockBytes));
                                      return Result<void>();
                                    })
                    .ok());
    return sealed;
  }
};

TEST_F(DiskTest, RandomWritesZerosAndCutsAgreeWithAModel) {
  std::mt19937 generator(20261130);
  auto number = [&](std::uint64_t below) { return static_cast<std::uint64_t>(generator()) % below; };
  std::shared_ptr<MemorySnapshot> newest = base;
  for (int round = 0; round < 400; ++round) {
    std::uint64_t alignment = number(3) == 0 ? 1 : number(2) == 0 ? 512 : kSectorBytes;
    std::uint64_t offset = number(kDiskBytes / alignment) * alignment;
    std::uint64_t length =
        std::min(kDiskBytes - offset, (1 + number(40)) * (alignment == 1 ? 777 : alignment));
    if (number(4) == 0) {
      ASSERT_TRUE(disk->write_zeros(offset, length).ok());
      std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(offset), length, std::byte{0});
    } else {
      Bytes data(length);
      for (auto& b : data) b = static_cast<std::byte>(generator());
      write(offset, data);
    }
    if (number(20) == 0) {
      Bytes at_cut = model;
      CutNumber cut = *disk->cut();
      EXPECT_FALSE(disk->dirty());
      write(number(kDiskBytes - 5000), Bytes(5000, std::byte{7}));  // the guest goes on before the seal
      if (number(3) != 0) {  // else: this snapshot failed and goes into the next one
        auto sealed = seal(cut, *newest);
        ASSERT_EQ(sealed->content == at_cut, true) << round;
        disk->committed(cut, sealed);
        newest = sealed;
      }
    }
    if (round % 20 == 0) expect_equal(model, "after a round");
  }
  expect_equal(model, "at the end");
}

TEST_F(DiskTest, BytesBeyondTheEndAreRefused) {
  Bytes data(4096);
  EXPECT_EQ(disk->write(kDiskBytes - 100, data).error().reason, "imager.out_of_range");
  EXPECT_EQ(disk->read(kDiskBytes, data).error().reason, "imager.out_of_range");
  EXPECT_EQ(disk->write_zeros(~0ULL, 1).error().reason, "imager.out_of_range");
}

TEST_F(DiskTest, ADiskLongerThanItsBaseReadsZerosBehindIt) {
  auto longer = *Disk::create(spool, 2 * kDiskBytes, base, random);
  Bytes data(8192, std::byte{1});
  ASSERT_TRUE(longer->read(kDiskBytes, data).ok());
  EXPECT_EQ(data == Bytes(8192), true);
  EXPECT_EQ(Disk::create(spool, 1000, base, random).error().field, "disk_bytes");
}

TEST_F(DiskTest, ABadBaseIsAnErrorAndNeverZeros) {
  base->fail = true;
  Bytes data(4096);
  EXPECT_EQ(disk->read(0, data).error().reason, "store.corrupt");
  write(kSectorBytes, Bytes(kSectorBytes, std::byte{3}));
  EXPECT_TRUE(disk->read(kSectorBytes, data).ok());  // what was written doesn't need the base
  EXPECT_EQ(disk->write(10, Bytes(5)).error().reason, "store.corrupt");
}

TEST(SectorCipherTest, EqualSectorsLookDifferentAndComeBack) {
  os::SystemRandom random;
  SectorCipher cipher(random);
  Bytes plain(2 * kSectorBytes), sealed(2 * kSectorBytes), back(2 * kSectorBytes);
  cipher.encrypt(5, plain, sealed);
  EXPECT_FALSE(std::equal(sealed.begin(), sealed.begin() + kSectorBytes, sealed.begin() + kSectorBytes));
  EXPECT_EQ(std::count(sealed.begin(), sealed.end(), std::byte{0}) < 200, true);
  cipher.decrypt(5, sealed, back);
  EXPECT_EQ(back == plain, true);
}

}  // namespace
}  // namespace space::imager::files
