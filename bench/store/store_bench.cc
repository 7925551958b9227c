// SPDX-License-Identifier: Apache-2.0
// space-store-bench [MiB] [zstd|lz4|none]: ingest of a whole memory image into an empty store and its reading
// back from a store opened anew, beside restic on the same bytes and the same file system. Rates in non-zero
// bytes. One JSON object.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bench/store/image.h"
#include "bench/store/peer.h"
#include "imager/store/testing/harness.h"
#include "lib/os/file.h"

namespace space::bench {
namespace {

using namespace imager::store;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct OwnTimes {
  double ingest_s = 0;
  double read_s = 0;
  double delta_ms = 0;  // a snapshot of 64 MiB of changed pages
  std::uint64_t stored_bytes = 0;
};

Result<OwnTimes> time_own(const std::string& folder, const Image& image, Compression compression) {
  SystemClock clock;
  os::SystemRandom random;
  testing::MemoryKeys keys(1);
  auto files = blob::open_real_file_system(folder);
  SPACE_TRY(auto objects, blob::open_dir_store(*files, random));
  StoreOptions options;
  options.compression = compression;
  IngestOptions ingest_options;
  ingest_options.tenant = testing::kTenant;
  ingest_options.session = testing::session_named('a');
  ingest_options.memory_bytes = image.bytes.size();
  std::vector<ChangedUnit> units;
  for (std::uint64_t unit = 0; unit < image.bytes.size() / kPageBytes; ++unit) {
    units.push_back({unit, image.bytes.data() + unit * kPageBytes});
  }
  OwnTimes times;
  SnapshotId id;
  {
    auto store = open_store(*objects, keys, random, clock, options);
    auto start = std::chrono::steady_clock::now();
    SPACE_TRY(auto ingest, store->begin_ingest(ingest_options));
    constexpr std::size_t kBatch = 16384;  // 64 MiB
    for (std::size_t at = 0; at < units.size(); at += kBatch) {
      SPACE_CHECK_OK(
          ingest->add(MapKind::kMemory, std::span(units).subspan(at, std::min(kBatch, units.size() - at))));
    }
    SPACE_TRY(auto info, ingest->commit({}, {}));
    times.ingest_s = seconds_since(start);
    times.stored_bytes = info.stored_bytes;
    id = info.id;

    // Then 64 MiB that changed, spread over the map.
    Bytes changed(std::min<std::size_t>(64u << 20, image.bytes.size() / 2));
    std::copy_n(image.bytes.end() - static_cast<std::ptrdiff_t>(changed.size()), changed.size(),
                changed.begin());
    std::vector<ChangedUnit> delta;
    std::size_t stride = units.size() / (changed.size() / kPageBytes);
    for (std::size_t i = 0; i < changed.size() / kPageBytes; ++i) {
      store_le(changed.data() + i * kPageBytes, std::uint64_t{i} + 1);  // no page is known
      delta.push_back({i * stride, changed.data() + i * kPageBytes});
    }
    ingest_options.parent = id;
    start = std::chrono::steady_clock::now();
    SPACE_TRY(auto second, store->begin_ingest(ingest_options));
    SPACE_CHECK_OK(second->add(MapKind::kMemory, delta));
    SPACE_CHECK_OK(second->commit({}, {}));
    times.delta_ms = seconds_since(start) * 1000;
  }
  auto store = open_store(*objects, keys, random, clock, options);
  Bytes out(std::min<std::size_t>(64u << 20, image.bytes.size()));
  std::fill(out.begin(), out.end(), std::byte{1});
  auto start = std::chrono::steady_clock::now();
  SPACE_TRY(auto opened, store->open(testing::kTenant, id));
  std::uint64_t wrong = 0;
  double comparing = 0;
  for (std::size_t at = 0; at < image.bytes.size(); at += out.size()) {
    std::span<std::byte> part = std::span(out).first(std::min(out.size(), image.bytes.size() - at));
    SPACE_CHECK_OK(opened->map(MapKind::kMemory).read(at / kPageBytes, part));
    auto compare = std::chrono::steady_clock::now();
    if (std::memcmp(part.data(), image.bytes.data() + at, part.size()) != 0) ++wrong;
    comparing += seconds_since(compare);
  }
  times.read_s = seconds_since(start) - comparing;
  if (wrong != 0) return make_error(Code::kDataLoss, "bench.wrong", "what was read isn't what was written");
  return times;
}

Result<void> run(std::uint64_t mib, Compression compression, const char* name) {
  std::string folder = "/var/tmp/space-store-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return errno_error(errno, "bench.folder", "make a folder");
  std::fprintf(stderr, "making an image of %llu MiB\n", static_cast<unsigned long long>(mib));
  SPACE_TRY(Image image, make_image(mib << 20));
  SPACE_CHECK_OK(os::make_directory(folder + "/store"));
  SPACE_CHECK_OK(os::make_directory(folder + "/peer"));
  std::fprintf(stderr, "store\n");
  auto own = time_own(folder + "/store", image, compression);
  std::fprintf(stderr, "restic\n");
  Result<std::optional<PeerTimes>> peer = std::optional<PeerTimes>();
  if (own.ok()) {
    auto written = os::write_file_atomic(folder + "/image", as_text(image.bytes), os::Durability::kSynced);
    if (written.ok()) peer = time_restic(folder + "/peer", folder + "/image");
  }
  os::remove_tree(folder).ignore("below /var/tmp");
  SPACE_CHECK_OK(own);
  SPACE_CHECK_OK(peer);
  double nonzero = static_cast<double>(image.nonzero_bytes) / (1 << 20);
  std::string json = fmt::format(
      R"({{"compression":"{}","apparent_mib":{},"nonzero_mib":{:.0f},"stored_mib":{:.1f},"ingest_mib_s":{:.0f},"read_mib_s":{:.0f},"delta_64mib_ms":{:.0f})",
      name, mib, nonzero, static_cast<double>(own->stored_bytes) / (1 << 20), nonzero / own->ingest_s,
      nonzero / own->read_s, own->delta_ms);
  if (*peer) {
    // What restic takes to start (its password hashing) isn't held against it.
    double backup = nonzero / std::max(0.001, (**peer).backup_s - (**peer).startup_s);
    double restore = nonzero / std::max(0.001, (**peer).restore_s - (**peer).startup_s);
    json += fmt::format(
        R"(,"restic_startup_s":{:.2f},"restic_ingest_mib_s":{:.0f},"restic_read_mib_s":{:.0f},"restic_stored_mib":{:.1f},"ingest_ratio":{:.2f},"read_ratio":{:.2f}}})",
        (**peer).startup_s, backup, restore, static_cast<double>((**peer).stored_bytes) / (1 << 20),
        nonzero / own->ingest_s / backup, nonzero / own->read_s / restore);
  } else {
    json += R"(,"missing":["restic"]})";
  }
  std::printf("%s\n", json.c_str());
  return {};
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  using space::imager::store::Compression;
  std::uint64_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 512;
  std::string name = argc > 2 ? argv[2] : "zstd";
  Compression compression = name == "lz4"    ? Compression::kLz4
                            : name == "none" ? Compression::kNone
                                             : Compression::kZstd1;
  if (mib < 16 || mib > 65536) {
    std::fprintf(stderr, "usage: space-store-bench [MiB, 16 to 65536] [zstd|lz4|none]\n");
    return 2;
  }
  auto done = space::bench::run(mib, compression, name.c_str());
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.error().describe().c_str());
    return 1;
  }
  return 0;
}
