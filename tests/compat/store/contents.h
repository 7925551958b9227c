// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the fixtures hold.

#include "imager/store/testing/harness.h"

namespace space::compat {

namespace store = imager::store;

inline const SessionId kSession{"fixturesession000000"};
inline const SessionId kFork{"fixturefork000000000"};
inline const SessionId kBaseSession{"fixturebase000000000"};
inline constexpr std::uint64_t kMemoryBytes = 70'000ull * store::kPageBytes;  // three levels
inline constexpr std::uint64_t kDiskBytes = 300ull * store::kBlockBytes;
inline constexpr std::size_t kSnapshots = 70;  // more than a head holds without a checkpoint

// Maps after snapshot `number` of kSession, 0 being the fork of the base image.
store::testing::Model memory_at(std::size_t number);
store::testing::Model disk_at(std::size_t number);
Bytes device_state_at(std::size_t number);
// Key of the exported file.
crypto::SecretBytes export_key();

// Compares one snapshot; says what is wrong, or nothing.
std::string compare(store::Store& opened, const SnapshotId& snapshot, std::size_t number);

}  // namespace space::compat
