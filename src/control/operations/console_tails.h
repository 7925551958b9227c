// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last bytes that ended sandboxes wrote to their consoles, one file per sandbox in the logs directory,
// the oldest removed beyond a fixed number. Guest bytes, kept and given back as they are. Blocking and quick:
// at most 256 KiB. Resource type; one loop. Posture: hostile-guest.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/id.h"
#include "lib/base/result.h"

namespace space::control::operations {

class ConsoleTails {
 public:
  static constexpr std::size_t kMaxTailBytes = 256u << 10;

  // `directory` is made when absent.
  explicit ConsoleTails(std::string directory, std::size_t most_files = 1024);

  // An empty tail is not kept. Errors: os.file.
  Result<void> keep(const SandboxId& sandbox, const std::vector<std::uint8_t>& tail);
  // Empty when nothing was kept.
  Result<std::string> read(const SandboxId& sandbox) const;

 private:
  void prune();

  std::string directory_;
  std::size_t most_files_;
  std::size_t kept_since_prune_ = 0;
};

}  // namespace space::control::operations
