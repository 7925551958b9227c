// SPDX-License-Identifier: Apache-2.0
#include "lib/base/id.h"

#include <algorithm>

namespace space {

bool is_well_formed_id(std::string_view text) {
  return text.size() >= 16 && text.size() <= 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

}  // namespace space
