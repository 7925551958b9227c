// SPDX-License-Identifier: Apache-2.0
#pragma once
// A memory image like a guest's: zero pages in runs, pages of programs and libraries, pages of text, a few
// that don't compress. Taken from files of this machine, so that contents are real; repeated only when they
// run out.

#include <cstdint>
#include <string>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::bench {

struct Image {
  Bytes bytes;
  std::uint64_t nonzero_bytes = 0;
};
Result<Image> make_image(std::uint64_t bytes);

}  // namespace space::bench
