// SPDX-License-Identifier: Apache-2.0
// make-store-fixture FOLDER CORPUS: writes a store into FOLDER/store, an export beside it, and seeds for the
// fuzz targets into CORPUS/store_*. Refuses a folder that exists: fixtures are never edited.
#include <cstdio>
#include <string_view>

#include "imager/store/format/export.h"
#include "imager/store/format/records.h"
#include "lib/os/file.h"
#include "tests/compat/store/contents.h"

namespace space::compat {
namespace {

using namespace imager::store;
using namespace imager::store::testing;

std::vector<Change> differences(const Model& before, const Model& after, MapKind map) {
  std::vector<Change> changes;
  for (const auto& [unit, content] : after) {
    auto old = before.find(unit);
    if (old == before.end() || old->second != content) changes.push_back({map, unit, content});
  }
  for (const auto& [unit, content] : before) {
    if (!after.contains(unit)) changes.push_back({map, unit, std::nullopt});
  }
  return changes;
}

Result<void> make_store(const std::string& folder) {
  SPACE_CHECK_OK(os::make_directories(folder + "/store"));
  SimulatedClock clock;
  os::SeededRandom random(20261130);
  os::SeededRandom names(2);
  MemoryKeys keys(3);
  auto files = blob::open_real_file_system(folder + "/store");
  SPACE_TRY(auto objects, blob::open_dir_store(*files, names));
  StoreOptions options = small_options();
  options.workers = 1;  // so that the fixture is the same each time
  auto opened = open_store(*objects, keys, random, clock, options);
  auto ingest = [&](const TenantId& tenant, const SessionId& session, std::optional<SnapshotId> parent,
                    std::size_t number) -> Result<SnapshotInfo> {
    IngestOptions ingest_options;
    ingest_options.tenant = tenant;
    ingest_options.session = session;
    ingest_options.parent = parent;
    ingest_options.memory_bytes = kMemoryBytes;
    ingest_options.disk_bytes = kDiskBytes;
    Model memory = parent ? memory_at(number - 1) : Model();
    Model disk = parent ? disk_at(number - 1) : Model();
    auto changes = differences(memory, memory_at(number), MapKind::kMemory);
    auto blocks = differences(disk, disk_at(number), MapKind::kDisk);
    changes.insert(changes.end(), blocks.begin(), blocks.end());
    clock.advance(std::chrono::seconds(60));
    return take(*opened, ingest_options, changes, meta_at(clock.wall(), number == 5 ? "five" : ""),
                device_state_at(number));
  };
  SPACE_TRY(auto base, ingest(kBaseTenant, kBaseSession, {}, 0));
  SPACE_TRY(auto last, opened->fork(kTenant, base.id, kSession, {}));
  for (std::size_t i = 1; i < kSnapshots; ++i) {
    SPACE_TRY(last, ingest(kTenant, kSession, last.id, i));
    if (i == 20) SPACE_CHECK_OK(opened->new_data_key(kTenant));
    if (i == 30) SPACE_CHECK_OK(opened->set_prefetch(kTenant, last.id, std::vector<std::uint64_t>{0, 256}));
    if (i == 40) SPACE_CHECK_OK(opened->fork(kTenant, last.id, kFork, {}));
  }
  for (int i = 0; i < 2; ++i) SPACE_CHECK_OK(opened->collect(kTenant));
  Bytes file;
  SPACE_CHECK_OK(opened->export_snapshot(kTenant, last.id, export_key(), [&](ByteView part) -> Result<void> {
    file.insert(file.end(), part.begin(), part.end());
    return {};
  }));
  return os::write_file_atomic(folder + "/snapshot.export", as_text(file), os::Durability::kBuffered, 0644);
}

Result<void> seed(const std::string& corpus, const std::string& target, const std::string& name, int choice,
                  ByteView content) {
  SPACE_CHECK_OK(os::make_directories(corpus + "/" + target));
  Bytes bytes;
  if (choice >= 0) bytes.push_back(static_cast<std::byte>(choice));
  bytes.insert(bytes.end(), content.begin(), content.end());
  return os::write_file_atomic(corpus + "/" + target + "/" + name, as_text(bytes), os::Durability::kBuffered,
                               0644);
}

Result<void> make_seeds(const std::string& folder, const std::string& corpus) {
  os::SeededRandom random(4);
  FrameRef frame{Realm::kOwn, PackId::fresh(random), 80, 300};
  FrameRef base{Realm::kBase, PackId::fresh(random), 4000, 700};
  ContentId id{};
  random.fill(id);
  Leaf leaf;
  for (std::size_t i : {0u, 1u, 200u, 255u}) {
    leaf.present[i] = true;
    leaf.units[i] = {i % 2 == 0 ? frame : base, static_cast<std::uint8_t>(i % 16), id};
  }
  Inner inner;
  inner.level = 2;
  inner.present[7] = true;
  inner.children[7] = {base, id};
  SPACE_CHECK_OK(seed(corpus, "store_node", "leaf", -1, encode_leaf(leaf)));
  SPACE_CHECK_OK(seed(corpus, "store_node", "inner", -1, encode_inner(inner)));
  SPACE_CHECK_OK(seed(corpus, "store_node", "empty", -1, encode_leaf(Leaf())));

  RootRecord root;
  root.info.id = SnapshotId("snapshotsnapshot0000");
  root.info.session = kSession;
  root.info.name = "name";
  root.meta = meta_at(WallTime(std::chrono::seconds(1'750'000'000)), "name");
  root.memory_bytes = kPageBytes;
  root.memory = {1, NodeRef{frame, id}};
  root.device_state = {NodeRef{base, id}};
  root.prefetch = {1, 2, 3};
  root.packs = {frame.pack};
  HeadRecord head;
  head.session = kSession;
  head.checkpoint = "00";
  head.changes = {{root.info, std::nullopt}, {std::nullopt, root.info.id}};
  CollectorRecord collector;
  collector.owner = "someone";
  collector.doomed = {"t/x/packs/y"};
  RingRecord ring{{{KeyId::fresh(random), 0, Bytes(40)}, {KeyId::fresh(random), 1, Bytes(40)}}};
  SPACE_CHECK_OK(seed(corpus, "store_record", "ring", 0, encode_ring(ring)));
  SPACE_CHECK_OK(seed(corpus, "store_record", "root", 2, encode(root)));
  SPACE_CHECK_OK(seed(corpus, "store_record", "head", 3, encode(head)));
  SPACE_CHECK_OK(seed(corpus, "store_record", "history", 4, encode(HistoryRecord{{root.info}})));
  SPACE_CHECK_OK(seed(corpus, "store_record", "collector", 5, encode(collector)));
  SPACE_CHECK_OK(seed(corpus, "store_record", "lease", 6, encode(LeaseRecord{root.info.id, {}})));
  SPACE_CHECK_OK(seed(corpus, "store_record", "prefetch", 7, encode(PrefetchRecord{{5, 6}})));

  // A real pack and a real root.
  SPACE_TRY(auto packs, os::list_directory(folder + "/store/" + packs_folder(kTenant)));
  SPACE_TRY(std::string pack,
            os::read_file(folder + "/store/" + packs_folder(kTenant) + "/" + packs.front()));
  ByteView bytes = as_bytes(pack);
  SPACE_CHECK_OK(seed(corpus, "store_pack", "header", 0, bytes.first(kPackHeaderBytes)));
  SPACE_CHECK_OK(seed(corpus, "store_pack", "frame", 1, bytes.subspan(kPackHeaderBytes, kFrameHeaderBytes)));
  SPACE_CHECK_OK(seed(corpus, "store_pack", "trailer", 2, bytes));
  FooterFrame entry{80, 300, 2 * kPageBytes, FrameKind::kUnits, {id, id}};
  SPACE_CHECK_OK(seed(corpus, "store_pack", "footer", 3, encode_footer({entry})));
  Bytes packed(ZSTD_compressBound(kPageBytes));
  Bytes page = page_of(1);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), page.data(), page.size(), 1));
  SPACE_CHECK_OK(seed(corpus, "store_pack", "zstd", 4, packed));
  SPACE_CHECK_OK(seed(corpus, "store_pack", "lz4", 5, page));
  SPACE_TRY(auto roots, os::list_directory(folder + "/store/" + roots_folder(kTenant)));
  SPACE_TRY(std::string sealed,
            os::read_file(folder + "/store/" + roots_folder(kTenant) + "/" + roots.front()));
  SPACE_CHECK_OK(seed(corpus, "store_record", "sealed", 1, as_bytes(sealed)));

  SPACE_TRY(std::string exported, os::read_file(folder + "/snapshot.export"));
  bytes = as_bytes(exported);
  ExportRecord units;
  units.units = ExportUnits{MapKind::kMemory, {4, 9}, 0, Bytes(2 * kPageBytes)};
  ExportRecord first;
  first.head = ExportHead{root.meta, kPageBytes, 0, 10, {1}};
  ExportRecord last;
  last.end = ExportEnd{2};
  SPACE_CHECK_OK(seed(corpus, "store_export", "header", 0, bytes.first(kExportHeaderBytes)));
  SPACE_CHECK_OK(
      seed(corpus, "store_export", "frame", 1, bytes.subspan(kExportHeaderBytes, kExportFrameBytes)));
  SPACE_CHECK_OK(seed(corpus, "store_export", "units", 2, encode_export_record(units)));
  SPACE_CHECK_OK(seed(corpus, "store_export", "first", 2, encode_export_record(first)));
  SPACE_CHECK_OK(seed(corpus, "store_export", "last", 2, encode_export_record(last)));
  return seed(corpus, "store_export", "file", 3, bytes.first(2000));
}

Result<void> make(const std::string& folder, const std::string& corpus) {
  if (os::exists(folder)) return make_error(Code::kAlreadyExists, "fixture.exists", folder + " exists");
  SPACE_CHECK_OK(make_store(folder));
  return make_seeds(folder, corpus);
}

}  // namespace
}  // namespace space::compat

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make-store-fixture FOLDER CORPUS\n");
    return 2;
  }
  auto made = space::compat::make(argv[1], argv[2]);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().describe().c_str());
    return 1;
  }
  return 0;
}
