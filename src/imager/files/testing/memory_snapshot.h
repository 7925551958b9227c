// SPDX-License-Identifier: Apache-2.0
#pragma once
// An open snapshot whose maps lie in memory: stands in for the store in tests of what serves it.

#include <atomic>
#include <cstring>

#include "imager/store/store.h"

namespace space::imager::files {

class MemorySnapshot final : public store::OpenSnapshot, public store::MapReader {
 public:
  MemorySnapshot(std::uint64_t bytes, std::uint32_t unit) : content(bytes), unit_(unit) {}

  Bytes content;
  bool fail = false;
  std::atomic<std::size_t> reads{0};

  [[nodiscard]] const store::SnapshotRecord& record() const override { return record_; }
  [[nodiscard]] store::MapReader& map(store::MapKind) override { return *this; }
  Result<Bytes> device_state() override { return Bytes(); }
  [[nodiscard]] std::uint64_t size_bytes() const override { return content.size(); }
  [[nodiscard]] std::uint32_t unit_bytes() const override { return unit_; }
  Result<void> read(std::uint64_t first, std::span<std::byte> out) override {
    ++reads;
    if (fail) {
      std::memset(out.data(), 0, out.size());
      return make_error(Code::kDataLoss, "store.corrupt", "told to fail");
    }
    std::memcpy(out.data(), content.data() + first * unit_, out.size());
    return {};
  }
  Result<std::vector<std::uint64_t>> stored_units(std::uint64_t, std::uint64_t) override {
    return std::vector<std::uint64_t>();
  }
  Result<std::vector<std::uint64_t>> differing(std::span<const store::ChangedUnit>) override {
    return std::vector<std::uint64_t>();
  }
  Result<void> prefetch(std::span<const std::uint64_t>) override { return {}; }

 private:
  std::uint32_t unit_;
  store::SnapshotRecord record_;
};

}  // namespace space::imager::files
