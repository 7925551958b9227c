// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unix stream sockets and descriptor passing. Sockets come back non-blocking and close-on-exec. A path longer
// than sun_path is reached through /proc/self/fd of its directory. Errors: os.socket.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::os {

// Binds and listens; an old socket file at `path` is replaced.
Result<Fd> listen_unix(const std::string& path, unsigned mode = 0600, int backlog = 64);
// Connects at once or fails (ECONNREFUSED and ENOENT give a retryable or not_found error).
Result<Fd> connect_unix(const std::string& path);
Result<std::pair<Fd, Fd>> unix_pair();

inline constexpr std::size_t kMaxPassedFds = 8;

// Sends a prefix of `data` with `fds` attached to its first byte. Returns the bytes taken; 0 when it would
// block. Precondition: data is not empty.
Result<std::size_t> send_with_fds(int socket, ByteView data, const std::vector<int>& fds);

// Receives up to `size` bytes and appends passed descriptors to `fds`. Returns 0 at end of stream, and
// unavailable os.would_block when nothing is there.
Result<std::size_t> receive_with_fds(int socket, std::byte* out, std::size_t size, std::vector<Fd>& fds);

// uid of the process at the other end.
Result<unsigned> peer_uid(int socket);

}  // namespace space::os
