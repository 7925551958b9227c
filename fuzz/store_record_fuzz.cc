// SPDX-License-Identifier: Apache-2.0
// Key rings, heads of sealed objects, and the records inside them. The first byte chooses. What decodes must
// encode to the same bytes.
#include <cstdlib>

#include "imager/store/format/records.h"
#include "imager/store/format/sealed_object.h"

using namespace space;
using namespace space::imager::store;

namespace {

template <class T>
void round_trip(ByteView input) {
  auto record = decode<T>(input);
  if (record.ok() && encode(*record) != to_bytes(input)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);  // SAFETY: bytes alias
  switch (data[0] % 8) {
    case 0: {
      auto ring = decode_ring(input);
      if (ring.ok() && encode_ring(*ring) != to_bytes(input)) std::abort();
      break;
    }
    case 1:
      decode_sealed_header(input).ignore("hostile");
      break;
    case 2:
      round_trip<RootRecord>(input);
      break;
    case 3:
      round_trip<HeadRecord>(input);
      break;
    case 4:
      round_trip<HistoryRecord>(input);
      break;
    case 5:
      round_trip<CollectorRecord>(input);
      break;
    case 6:
      round_trip<LeaseRecord>(input);
      break;
    case 7:
      round_trip<PrefetchRecord>(input);
      break;
  }
  return 0;
}
