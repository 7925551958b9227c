// SPDX-License-Identifier: Apache-2.0
// Tree nodes: what decodes must encode to the same bytes.
#include <cstdlib>

#include "imager/store/format/node.h"

using namespace space;
using namespace space::imager::store;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteView input(reinterpret_cast<const std::byte*>(data), size);  // SAFETY: bytes alias
  auto node = decode_node(input);
  if (!node.ok()) return 0;
  if ((node->leaf != nullptr) == (node->inner != nullptr)) std::abort();
  if ((node->leaf ? encode_leaf(*node->leaf) : encode_inner(*node->inner)) != to_bytes(input)) std::abort();
  return 0;
}
