// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of one sandbox on this machine: its directory, its user, and the listening sockets through which
// the host reaches its VMM.
//
//   <sandboxes>/<id>/              root only
//     record.json                  node/record.h
//     slot/                        root's, readable by all; the jail's /slot
//       overlay.qcow2, memory      the sandbox's user may write these two files and nothing else
//       channel.sock, qmp.sock, console.sock
//
// The sockets are made here and handed to the VMM as listening descriptors, so that a VMM, even a hostile
// one, never makes a file, and whoever connects by path (a restarted node) reaches exactly what was made. A
// slot is never reused.

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::node::slot {

// In the order in which link wants their connections.
inline constexpr std::array<const char*, 3> kSocketNames = {"channel.sock", "qmp.sock", "console.sock"};

// Value type: names only.
struct Slot {
  SandboxId sandbox;
  std::string home;  // <sandboxes>/<id>
  uid_t uid = 0;     // also the gid

  [[nodiscard]] std::string directory() const { return home + "/slot"; }
  [[nodiscard]] std::string file(const std::string& name) const { return directory() + "/" + name; }
};

// Makes `home`/slot. Precondition: home exists. Errors: os.file.
Result<void> make_slot_directory(const Slot& slot);
// An empty file of `bytes` (sparse) that belongs to the sandbox's user. Errors: node.slot.
Result<void> make_slot_file(const Slot& slot, const std::string& name, std::uint64_t bytes);
// Listening sockets in the order of kSocketNames, blocking as QEMU wants them. Errors: os.socket.
Result<std::vector<os::Fd>> listen_in_slot(const Slot& slot);
// Connections to the three sockets, non-blocking. Succeeds as soon as they listen, whatever the VMM does.
// Errors: os.socket.
Result<std::vector<os::Fd>> connect_to_slot(const Slot& slot);

}  // namespace space::node::slot
