// SPDX-License-Identifier: Apache-2.0
// Exported files: the parts in the clear, and the records inside. The first byte chooses.
#include <cstdlib>

#include "imager/store/format/export.h"

using namespace space;
using namespace space::imager::store;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);  // SAFETY: bytes alias
  switch (data[0] % 4) {
    case 0:
      decode_export_header(input).ignore("hostile");
      break;
    case 1: {
      auto frame = decode_export_frame(input);
      if (frame.ok() && frame->sealed_bytes > kMaxExportRecordBytes) std::abort();
      break;
    }
    case 2: {
      auto record = decode_export_record(input);
      if (record.ok() && encode_export_record(*record) != to_bytes(input)) std::abort();
      break;
    }
    default: {
      // A whole file as it arrives, in pieces.
      auto key = crypto::SecretBytes::copy_of(Bytes(crypto::kKeyBytes, std::byte{1}));
      Store::Source source = [&](std::span<std::byte> out) -> Result<std::size_t> {
        std::size_t take = std::min({out.size(), input.size(), std::size_t{7}});
        std::copy_n(input.begin(), take, out.begin());
        input = input.subspan(take);
        return take;
      };
      auto done =
          read_export(key, source, [](std::uint64_t, std::uint64_t) -> Result<std::unique_ptr<Ingest>> {
            return make_error(Code::kInternal, "fuzz.none", "no store here");
          });
      if (done.ok()) std::abort();
    }
  }
  return 0;
}
