// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the scripted node and link share: the sandboxes there are. Link knows a sandbox from its start to its
// end.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/guest_generated.h"
#include "api/node_generated.h"
#include "lib/async/event.h"
#include "lib/base/bytes.h"

namespace space::testkit {

// One command of a scripted guest.
struct FakeCommand {
  guestapi::CommandInfoT info;
  std::string stdout_bytes;
  std::string stderr_bytes;
};

struct FakeFile {
  std::string content;  // kept up to 8 MiB
  std::uint64_t size = 0;
  std::uint64_t sum = 0;  // FNV-1a of all bytes, also of what is not kept
  std::uint32_t mode = 0644;
};

struct FakeSandbox {
  explicit FakeSandbox(const async::Executor& executor) : changed(executor) {}
  nodeapi::SandboxInfoT info;
  bool ended = false;
  async::Event changed;
  std::map<std::string, std::shared_ptr<FakeCommand>> commands;
  std::map<std::string, FakeFile> files;
  std::vector<std::string> received_signals;
  int guest_calls = 0;
};

using FakeSandboxes = std::map<std::string, std::shared_ptr<FakeSandbox>>;

inline std::uint64_t fnv1a(ByteView bytes, std::uint64_t sum = 0xcbf29ce484222325ULL) {
  for (std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ULL;
  return sum;
}

}  // namespace space::testkit
