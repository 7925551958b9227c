// SPDX-License-Identifier: Apache-2.0
#include "tests/compat/store/contents.h"

#include "lib/crypto/aead.h"

namespace space::compat {

using namespace store::testing;

Model memory_at(std::size_t number) {
  Model model{{0, page_of(1000)}, {69'999, page_of(1001)}};
  for (std::size_t i = 1; i <= number; ++i) {
    model[i % 5 * 256] = i % 9 == 0 ? random_page(i) : page_of(i);
    if (i % 7 == 0) model.erase(69'999);
  }
  return model;
}
Model disk_at(std::size_t number) {
  Model model{{299, page_of(2000, store::kBlockBytes)}};
  if (number >= 10) model[10] = page_of(2001, store::kBlockBytes);
  return model;
}
Bytes device_state_at(std::size_t number) {
  return page_of(3000 + number, 1024);
}
crypto::SecretBytes export_key() {
  return crypto::SecretBytes::copy_of(Bytes(crypto::kKeyBytes, std::byte{0x5a}));
}

std::string compare(store::Store& opened, const SnapshotId& snapshot, std::size_t number) {
  auto held = opened.open(kTenant, snapshot);
  if (!held.ok()) return held.error().describe();
  for (store::MapKind map : {store::MapKind::kMemory, store::MapKind::kDisk}) {
    Model expected = map == store::MapKind::kMemory ? memory_at(number) : disk_at(number);
    store::MapReader& reader = (*held)->map(map);
    auto stored = reader.stored_units(0, ~std::uint64_t{0});
    if (!stored.ok()) return stored.error().describe();
    if (stored->size() != expected.size()) return "another number of units";
    for (const auto& [unit, content] : expected) {
      Bytes got(reader.unit_bytes());
      auto read = reader.read(unit, got);
      if (!read.ok()) return read.error().describe();
      if (got != content) return "unit " + std::to_string(unit) + " differs";
    }
  }
  auto state = (*held)->device_state();
  if (!state.ok()) return state.error().describe();
  return *state == device_state_at(number) ? "" : "device state differs";
}

}  // namespace space::compat
