// SPDX-License-Identifier: Apache-2.0
#pragma once
// Is a page all zero? Pure.

#include <cstddef>

#include "node/capture/page_run.h"

namespace space::node::capture {

// `page` is kPageBytes long, aligned to 8 bytes. Looks at a few words first, so that pages with content,
// which seldom begin with zeros everywhere, cost next to nothing; zero pages are read whole at memory speed.
bool is_zero_page(const std::byte* page);

}  // namespace space::node::capture
