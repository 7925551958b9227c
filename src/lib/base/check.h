// SPDX-License-Identifier: Apache-2.0
#pragma once
// SPACE_CHECK aborts with a message. For invariants only: never for anything that a guest, a peer, a
// tenant or a disk can cause.

#include <cstdio>
#include <cstdlib>

#define SPACE_CHECK(condition)                                                               \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
