// SPDX-License-Identifier: Apache-2.0
// A VMM's bytes into the line cutter and the parser. The first byte says in which pieces the rest arrives.
#include <algorithm>
#include <cstdlib>

#include "link/qmp_codec.h"
#include "link/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space;
  using namespace space::link;
  if (size < 1) return 0;
  std::size_t piece = data[0] == 0 ? size : data[0];
  ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);  // SAFETY: bytes alias
  QmpLines lines;
  while (!input.empty()) {
    ByteView part = input.first(std::min(piece, input.size()));
    input = input.subspan(part.size());
    if (!lines.append(part).ok()) return 0;
    while (auto line = lines.next()) {
      if (line->size() > kMaxQmpLineBytes || line->find('\n') != std::string_view::npos) std::abort();
      auto message = parse_qmp(*line);
      if (!message.ok()) continue;
      if (const auto* event = std::get_if<QmpEvent>(&*message)) {
        if (!is_printable(event->detail) || event->detail.size() > 40) std::abort();
      }
      if (const auto* answer = std::get_if<QmpAnswer>(&*message); answer != nullptr && answer->error) {
        if (!is_printable(answer->error->message) || answer->error->message.size() > kMaxQmpTextBytes + 40)
          std::abort();
      }
    }
  }
  return 0;
}
