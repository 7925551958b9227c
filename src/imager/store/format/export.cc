// SPDX-License-Identifier: Apache-2.0
#include "imager/store/format/export.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace space::imager::store {
namespace {

constexpr char kMagic[8] = {'S', 'P', 'C', 'E', 'X', 'P', 'T', '1'};
constexpr std::uint16_t kVersion = 1;
constexpr std::string_view kPurpose = "space.store.export.v1";

Error malformed(const char* why) {
  return make_error(Code::kDataLoss, "store.malformed", why);
}
Error invalid(const std::string& why) {
  return make_error(Code::kDataLoss, "store.import_invalid", "the file is not an intact snapshot: " + why);
}

crypto::Nonce record_nonce(std::uint64_t number, bool last) {
  return crypto::counted_nonce(last ? 1 : 0, number);
}

Bytes associated_data(ByteView header, ByteView frame) {
  Bytes out = to_bytes(header);
  out.insert(out.end(), frame.begin(), frame.end());
  return out;
}

// Seals records and hands them on.
class Writer {
 public:
  Writer(const Store::Sink& sink, ByteView header) : sink_(sink), header_(to_bytes(header)) {}
  Result<void> start(const crypto::SecretBytes& key, ByteView salt) {
    SPACE_TRY(auto file_key, crypto::hkdf_sha256(key.view(), salt, as_bytes(kPurpose), crypto::kKeyBytes));
    SPACE_CHECK_OK(aead_.set_key(file_key.view()));
    return sink_(header_);
  }
  enum class Last : std::uint8_t { kNo, kYes };
  Result<void> write(const ExportRecord& record, Last last) {
    Bytes plain = encode_export_record(record);
    Bytes out(kExportFrameBytes + plain.size() + crypto::kTagBytes);
    store_le(out.data(), static_cast<std::uint32_t>(plain.size() + crypto::kTagBytes));
    out[4] = std::byte{last == Last::kYes};
    Bytes associated = associated_data(header_, ByteView(out).first(kExportFrameBytes));
    SPACE_CHECK_OK(aead_.seal(record_nonce(number_++, last == Last::kYes), associated, plain,
                              std::span(out).subspan(kExportFrameBytes)));
    return sink_(out);
  }

 private:
  const Store::Sink& sink_;
  const Bytes header_;
  crypto::Aead aead_;
  std::uint64_t number_ = 0;
};

Result<std::uint64_t> write_map(OpenSnapshot& snapshot, MapKind map, Writer& writer) {
  MapReader& reader = snapshot.map(map);
  std::uint64_t unit = unit_bytes(map);
  std::uint64_t total = 0;
  constexpr std::uint64_t kUnitsListed = 1u << 20;
  for (std::uint64_t base = 0; base < reader.size_bytes() / unit; base += kUnitsListed) {
    SPACE_TRY(auto stored, reader.stored_units(base, kUnitsListed));
    for (std::size_t at = 0; at < stored.size();) {
      // Units within one stretch of plain bytes, so that one read gets them all.
      std::uint64_t first = stored[at];
      std::uint64_t end = std::min(first + kExportUnitBytes / unit, reader.size_bytes() / unit);
      ExportUnits units{map, {}, 0, {}};
      while (at < stored.size() && stored[at] < end) units.numbers.push_back(stored[at++]);
      Bytes stretch((units.numbers.back() + 1 - first) * unit);
      SPACE_CHECK_OK(reader.read(first, stretch));
      Bytes plain;
      for (std::uint64_t number : units.numbers) {
        auto from = stretch.begin() + static_cast<std::ptrdiff_t>((number - first) * unit);
        plain.insert(plain.end(), from, from + static_cast<std::ptrdiff_t>(unit));
      }
      units.packed.resize(plain.size());
      std::size_t packed =
          ZSTD_compress(units.packed.data(), units.packed.size(), plain.data(), plain.size(), 1);
      if (ZSTD_isError(packed) != 0) {
        units.packed = std::move(plain);
      } else {
        units.codec = static_cast<std::uint8_t>(Compression::kZstd1);
        units.packed.resize(packed);
      }
      total += units.numbers.size();
      ExportRecord record;
      record.units = std::move(units);
      SPACE_CHECK_OK(writer.write(record, Writer::Last::kNo));
    }
  }
  return total;
}

// Exactly `out`, or how much there was.
Result<std::size_t> read_some(const Store::Source& source, std::span<std::byte> out) {
  std::size_t got = 0;
  while (got < out.size()) {
    SPACE_TRY(std::size_t more, source(out.subspan(got)));
    if (more == 0) break;
    got += more;
  }
  return got;
}

// Gives the records to the ingest as they come.
class Importer {
 public:
  explicit Importer(const BeginIngest& begin) : begin_(begin) {}

  Result<void> take(ExportRecord record, bool last) {
    if (record.head.has_value() != !head_.has_value())
      return invalid("its first record is missing or repeated");
    if (record.end.has_value() != last) return invalid("its end is in the wrong place");
    if (record.head) {
      head_ = std::move(record.head);
      SPACE_TRY(ingest_, begin_(head_->memory_bytes, head_->disk_bytes));
      return {};
    }
    if (record.device_state) {
      state_.insert(state_.end(), record.device_state->begin(), record.device_state->end());
      return state_.size() > head_->device_state_bytes ? Result<void>(invalid("device state is too long"))
                                                       : Result<void>();
    }
    if (record.units) return take_units(*record.units);
    if (record.end->units != units_) return invalid("units are missing");
    if (state_.size() != head_->device_state_bytes) return invalid("device state is missing");
    return {};
  }

  Result<SnapshotInfo> finish() { return ingest_->commit(head_->meta, state_, head_->prefetch); }

 private:
  Result<void> take_units(const ExportUnits& units) {
    std::uint64_t unit = unit_bytes(units.map);
    Bytes plain(units.numbers.size() * unit);
    auto unpacked = decompress(static_cast<Compression>(units.codec), units.packed, plain, zstd_.get());
    if (!unpacked.ok()) return invalid(unpacked.error().message);
    std::vector<ChangedUnit> changed;
    for (std::size_t i = 0; i < units.numbers.size(); ++i) {
      changed.push_back({units.numbers[i], plain.data() + i * unit});
    }
    units_ += changed.size();
    return ingest_->add(units.map, changed);
  }

  struct FreeZstd {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const BeginIngest& begin_;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd_{ZSTD_createDCtx()};
  std::optional<ExportHead> head_;
  std::unique_ptr<Ingest> ingest_;
  Bytes state_;
  std::uint64_t units_ = 0;
};

}  // namespace

template <class A>
void fields(A& a, ExportHead& head) {
  a(head.meta);
  a(head.memory_bytes);
  a(head.disk_bytes);
  a(head.device_state_bytes);
  a(head.prefetch);
}
template <class A>
void fields(A& a, ExportUnits& units) {
  a(units.map);
  a(units.numbers);
  a(units.codec);
  a(units.packed);
}
template <class A>
void fields(A& a, ExportEnd& end) {
  a(end.units);
}
template <class A>
void fields(A& a, ExportRecord& record) {
  check_version(a);
  a(record.head);
  a(record.units);
  a(record.device_state);
  a(record.end);
}

Bytes encode_export_record(const ExportRecord& record) {
  return encode(record);
}

Result<ExportRecord> decode_export_record(ByteView plain) {
  SPACE_TRY(auto record, decode<ExportRecord>(plain));
  int set = record.head.has_value() + record.units.has_value() + record.device_state.has_value() +
            record.end.has_value();
  if (set != 1) return malformed("record holds not exactly one thing");
  if (record.units) {
    const ExportUnits& units = *record.units;
    if (units.map > MapKind::kDisk || units.codec > static_cast<std::uint8_t>(Compression::kLz4) ||
        units.numbers.empty() || units.numbers.size() * unit_bytes(units.map) > kExportUnitBytes ||
        std::ranges::adjacent_find(units.numbers, std::ranges::greater_equal()) != units.numbers.end()) {
      return malformed("units make no sense");
    }
  }
  return record;
}

Result<ExportFrame> decode_export_frame(ByteView bytes) {
  if (bytes.size() != kExportFrameBytes) return malformed("record has no length");
  ExportFrame frame{load_le<std::uint32_t>(bytes.data()), bytes[4] == std::byte{1}};
  bool zero = bytes[5] == std::byte{0} && bytes[6] == std::byte{0} && bytes[7] == std::byte{0};
  if (bytes[4] > std::byte{1} || !zero || frame.sealed_bytes <= crypto::kTagBytes ||
      frame.sealed_bytes > kMaxExportRecordBytes) {
    return malformed("length of a record makes no sense");
  }
  return frame;
}

Result<std::array<std::byte, 32>> decode_export_header(ByteView bytes) {
  if (bytes.size() != kExportHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return malformed("not an exported snapshot");
  }
  if (load_le<std::uint16_t>(bytes.data() + 8) != kVersion)
    return malformed("unknown version of the export format");
  std::array<std::byte, 32> salt;
  std::copy_n(bytes.begin() + 16, salt.size(), salt.begin());
  return salt;
}

Result<void> write_export(os::Random& random, OpenSnapshot& snapshot, const crypto::SecretBytes& key,
                          const Store::Sink& sink) {
  std::array<std::byte, kExportHeaderBytes> header{};
  std::array<std::byte, 32> salt;
  random.fill(salt);
  std::memcpy(header.data(), kMagic, sizeof kMagic);
  store_le(header.data() + 8, kVersion);
  std::copy(salt.begin(), salt.end(), header.begin() + 16);
  Writer writer(sink, header);
  SPACE_CHECK_OK(writer.start(key, salt));
  const SnapshotRecord& known = snapshot.record();
  SPACE_TRY(Bytes state, snapshot.device_state());
  ExportRecord record;
  std::vector<std::uint64_t> prefetch = known.prefetch;
  constexpr std::size_t kMaxPrefetch = 128u << 10;  // fits into a record; the rest is a help only
  if (prefetch.size() > kMaxPrefetch) prefetch.resize(kMaxPrefetch);
  record.head =
      ExportHead{known.meta, known.memory_bytes, known.disk_bytes, state.size(), std::move(prefetch)};
  SPACE_CHECK_OK(writer.write(record, Writer::Last::kNo));
  for (std::size_t at = 0; at < state.size(); at += kExportUnitBytes) {
    ExportRecord part;
    part.device_state = to_bytes(ByteView(state).subspan(at, std::min(kExportUnitBytes, state.size() - at)));
    SPACE_CHECK_OK(writer.write(part, Writer::Last::kNo));
  }
  SPACE_TRY(std::uint64_t pages, write_map(snapshot, MapKind::kMemory, writer));
  SPACE_TRY(std::uint64_t blocks, write_map(snapshot, MapKind::kDisk, writer));
  ExportRecord end;
  end.end = ExportEnd{pages + blocks};
  return writer.write(end, Writer::Last::kYes);
}

Result<SnapshotInfo> read_export(const crypto::SecretBytes& key, const Store::Source& source,
                                 const BeginIngest& begin) {
  std::array<std::byte, kExportHeaderBytes> header{};
  SPACE_TRY(std::size_t got, read_some(source, header));
  auto salt = decode_export_header(ByteView(header).first(got));
  if (!salt.ok()) return invalid(salt.error().message);
  SPACE_TRY(auto file_key, crypto::hkdf_sha256(key.view(), *salt, as_bytes(kPurpose), crypto::kKeyBytes));
  crypto::Aead aead;
  SPACE_CHECK_OK(aead.set_key(file_key.view()));
  Importer importer(begin);
  for (std::uint64_t number = 0;; ++number) {
    std::array<std::byte, kExportFrameBytes> raw{};
    SPACE_TRY(got, read_some(source, raw));
    auto frame = decode_export_frame(ByteView(raw).first(got));
    if (!frame.ok()) return invalid(frame.error().message);
    Bytes sealed(frame->sealed_bytes);
    SPACE_TRY(got, read_some(source, sealed));
    if (got != sealed.size()) return invalid("it ends in the middle of a record");
    Bytes plain(sealed.size() - crypto::kTagBytes);
    auto opened = aead.open(record_nonce(number, frame->last), associated_data(header, raw), sealed, plain);
    if (!opened.ok()) return invalid(opened.error().message + " (or the key is another one)");
    auto record = decode_export_record(plain);
    if (!record.ok()) return invalid(record.error().message);
    SPACE_CHECK_OK(importer.take(std::move(record).value(), frame->last));
    if (!frame->last) continue;
    std::byte extra{};
    SPACE_TRY(got, read_some(source, std::span(&extra, 1)));
    if (got != 0) return invalid("something follows its end");
    return importer.finish();
  }
}

}  // namespace space::imager::store
