// SPDX-License-Identifier: Apache-2.0
// space-bench NAME: prints one JSON object on one line, the last on stdout; progress goes to stderr.
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <string_view>

#include "bench/benches.h"

int main(int argc, char** argv) {
  using namespace space::bench;
  if (argc == 2) {
    for (const auto& bench : kBenches) {
      if (bench.name != argv[1]) continue;
      auto figures = bench.run();
      if (!figures.ok()) {
        std::fprintf(stderr, "space-bench %s: %s\n", argv[1], figures.error().describe().c_str());
        return 1;
      }
      std::printf("%s\n", boost::json::serialize(*figures).c_str());
      return 0;
    }
  }
  std::fprintf(stderr, "usage: space-bench NAME\n");
  for (const auto& bench : kBenches) {
    std::fprintf(stderr, "  %-8.*s %.*s\n", static_cast<int>(bench.name.size()), bench.name.data(),
                 static_cast<int>(bench.what.size()), bench.what.data());
  }
  return 2;
}
