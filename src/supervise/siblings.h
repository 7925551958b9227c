// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the other programs and the files that came with them are. They lie beside the running program, in a
// build tree (build/release/bin) or installed (/usr/bin, /usr/share/space).

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "supervise/data_directory.h"
#include "supervise/options.h"

namespace space::supervise {

struct Siblings {
  std::string control;
  std::string node;
  std::string link;
  std::string spaced;  // empty when it isn't there
  std::vector<std::string>
      templates;        // existing directories, the configured ones first, DIR/node/templates last
  std::string recipes;  // empty when there are none
  std::string openapi;  // empty when it isn't there
};

// The directory of the running program.
Result<std::string> own_directory();

// Errors: supervise.missing names what can't be found.
Result<Siblings> find_siblings(const Options& options, const DataDirectory& data);

}  // namespace space::supervise
