// SPDX-License-Identifier: Apache-2.0
#include "node/slot/slot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"

namespace space::node::slot {

Result<void> make_slot_directory(const Slot& slot) {
  SPACE_CHECK_OK(os::make_directory(slot.directory(), 0755));
  if (::chmod(slot.directory().c_str(), 0755) != 0)
    return errno_error(errno, "node.slot", "set mode of " + slot.directory());
  return {};
}

Result<void> make_slot_file(const Slot& slot, const std::string& name, std::uint64_t bytes) {
  SPACE_TRY(os::Fd file, os::open_file(slot.file(name), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fchown(file.get(), slot.uid, slot.uid) != 0) {
    return errno_error(errno, "node.slot", "prepare " + slot.file(name));
  }
  return {};
}

Result<std::vector<os::Fd>> listen_in_slot(const Slot& slot) {
  std::vector<os::Fd> sockets;
  for (const char* name : kSocketNames) {
    SPACE_TRY(os::Fd socket, os::listen_unix(slot.file(name), 0600, 8));
    if (::fcntl(socket.get(), F_SETFL, 0) != 0)
      return errno_error(errno, "node.slot", "prepare " + slot.file(name));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

Result<std::vector<os::Fd>> connect_to_slot(const Slot& slot) {
  std::vector<os::Fd> sockets;
  for (const char* name : kSocketNames) {
    SPACE_TRY(os::Fd socket, os::connect_unix(slot.file(name)));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

}  // namespace space::node::slot
