// SPDX-License-Identifier: Apache-2.0
// Headers, trailers and footers of packs, and compressed frames. The first byte chooses.
#include <cstdlib>

#include "imager/store/format/pack.h"

using namespace space;
using namespace space::imager::store;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);  // SAFETY: bytes alias
  switch (data[0] % 6) {
    case 0:
      decode_pack_header(input).ignore("hostile");
      break;
    case 1: {
      auto header = decode_frame_header(input);
      if (header.ok() && header->plain > kMaxFooterPlainBytes) std::abort();
      break;
    }
    case 2: {
      ByteView tail = input.size() > kPackTrailerBytes ? input.last(kPackTrailerBytes) : input;
      auto trailer = decode_pack_trailer(tail, input.size());
      if (trailer.ok() && trailer->footer_offset + std::uint64_t{trailer->footer_stored} > input.size())
        std::abort();
      break;
    }
    case 3: {
      auto footer = decode_footer(input);
      if (footer.ok() && encode_footer(*footer) != to_bytes(input)) std::abort();
      break;
    }
    default: {
      static ZSTD_DCtx* context = ZSTD_createDCtx();
      Bytes plain(data[0] < 128 ? kPageBytes : kMaxFramePlainBytes);
      decompress(data[0] % 6 == 4 ? Compression::kZstd1 : Compression::kLz4, input, plain, context)
          .ignore("hostile");
    }
  }
  return 0;
}
