// SPDX-License-Identifier: Apache-2.0
#pragma once
// One snapshot as one sealed file. FORMAT.md section 6.
//
// A header with a salt, then records, each sealed under HKDF(shared key, salt) with its number as nonce and
// marked when it is the last: cut, reordered, repeated or exchanged records don't open. The decoder is pure.
// Posture: hostile.

#include "imager/store/format/records.h"

namespace space::imager::store {

inline constexpr std::size_t kExportHeaderBytes = 48;
inline constexpr std::size_t kExportFrameBytes = 8;             // in front of each record
inline constexpr std::size_t kMaxExportRecordBytes = 2u << 20;  // sealed
inline constexpr std::size_t kExportUnitBytes = 1u << 20;       // of plain units in a record

// What a record holds; exactly one is set.
struct ExportHead {
  SnapshotMeta meta;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t device_state_bytes = 0;
  std::vector<std::uint64_t> prefetch;
};
struct ExportUnits {
  MapKind map{};
  std::vector<std::uint64_t> numbers;  // ascending
  std::uint8_t codec = 0;              // Compression
  Bytes packed;                        // the units one after the other
};
struct ExportEnd {
  std::uint64_t units = 0;
};
struct ExportRecord {
  std::optional<ExportHead> head;
  std::optional<ExportUnits> units;
  std::optional<Bytes> device_state;
  std::optional<ExportEnd> end;
};
Bytes encode_export_record(const ExportRecord& record);
// Errors: store.malformed.
Result<ExportRecord> decode_export_record(ByteView plain);
// Length of the sealed record that follows, and whether it is the last. Errors: store.malformed.
struct ExportFrame {
  std::uint32_t sealed_bytes = 0;
  bool last = false;
};
Result<ExportFrame> decode_export_frame(ByteView bytes);
// The salt. Errors: store.malformed.
Result<std::array<std::byte, 32>> decode_export_header(ByteView bytes);

Result<void> write_export(os::Random& random, OpenSnapshot& snapshot, const crypto::SecretBytes& key,
                          const Store::Sink& sink);

// Reads a whole file; `begin` makes the ingest once the sizes are known.
using BeginIngest =
    std::function<Result<std::unique_ptr<Ingest>>(std::uint64_t memory_bytes, std::uint64_t disk_bytes)>;
Result<SnapshotInfo> read_export(const crypto::SecretBytes& key, const Store::Source& source,
                                 const BeginIngest& begin);

}  // namespace space::imager::store
