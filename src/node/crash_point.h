// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named places at which a test lets the process die (SPACE_CRASH_AT=create.held): as by kill -9, with nothing
// written and nothing undone. Absent from release builds.

#ifndef NDEBUG
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>

#define SPACE_CRASH_POINT(name)                                                           \
  do {                                                                                    \
    const char* wanted = std::getenv("SPACE_CRASH_AT");                                   \
    if (wanted != nullptr && std::strcmp(wanted, name) == 0) ::kill(::getpid(), SIGKILL); \
  } while (false)
#else
#define SPACE_CRASH_POINT(name) \
  do {                          \
  } while (false)
#endif
