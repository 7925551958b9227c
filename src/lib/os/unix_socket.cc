// SPDX-License-Identifier: Apache-2.0
#include "lib/os/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "lib/os/file.h"

namespace space::os {
namespace {

Error socket_error(const char* verb, const std::string& path) {
  return errno_error(errno, "os.socket", std::string(verb) + " " + path);
}

// An address for `path`; a long one goes through a descriptor of its directory, kept open in `keep`.
Result<sockaddr_un> address_of(const std::string& path, Fd& keep) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string shown = path;
  if (shown.size() >= sizeof address.sun_path) {
    auto slash = path.rfind('/');
    if (slash == std::string::npos)
      return make_error(Code::kInvalidArgument, "os.socket", "socket name too long: " + path);
    SPACE_TRY(keep, open_file(path.substr(0, slash), O_PATH | O_DIRECTORY));
    shown = "/proc/self/fd/" + std::to_string(keep.get()) + path.substr(slash);
    if (shown.size() >= sizeof address.sun_path)
      return make_error(Code::kInvalidArgument, "os.socket", "socket name too long: " + path);
  }
  std::memcpy(address.sun_path, shown.c_str(), shown.size() + 1);
  return address;
}

Result<Fd> new_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error(errno, "os.socket", "create socket");
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);  // SAFETY: the socket API's own convention
}

}  // namespace

Result<Fd> listen_unix(const std::string& path, unsigned mode, int backlog) {
  SPACE_TRY(Fd fd, new_socket());
  Fd keep;
  SPACE_TRY(sockaddr_un address, address_of(path, keep));
  ::unlink(path.c_str());
  if (::bind(fd.get(), generic(address), sizeof address) != 0) return socket_error("bind", path);
  if (::chmod(path.c_str(), mode) != 0) return socket_error("chmod", path);
  if (::listen(fd.get(), backlog) != 0) return socket_error("listen on", path);
  return fd;
}

Result<Fd> connect_unix(const std::string& path) {
  SPACE_TRY(Fd fd, new_socket());
  Fd keep;
  SPACE_TRY(sockaddr_un address, address_of(path, keep));
  if (::connect(fd.get(), generic(address), sizeof address) != 0) return socket_error("connect to", path);
  return fd;
}

Result<std::pair<Fd, Fd>> unix_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return errno_error(errno, "os.socket", "create socket pair");
  }
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Result<std::size_t> send_with_fds(int socket, ByteView data, const std::vector<int>& fds) {
  if (fds.size() > kMaxPassedFds)
    return make_error(Code::kInvalidArgument, "os.socket", "too many descriptors in one message");
  iovec part{const_cast<std::byte*>(data.data()), data.size()};  // SAFETY: sendmsg only reads
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    ssize_t put = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) return static_cast<std::size_t>(put);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return errno_error(errno, "os.socket", "send");
  }
}

Result<std::size_t> receive_with_fds(int socket, std::byte* out, std::size_t size, std::vector<Fd>& fds) {
  iovec part{out, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return make_error(Code::kUnavailable, "os.would_block", "nothing to receive");
  if (got < 0) return errno_error(errno, "os.socket", "receive");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return static_cast<std::size_t>(got);
}

Result<unsigned> peer_uid(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return errno_error(errno, "os.socket", "read peer credentials");
  }
  return credentials.uid;
}

}  // namespace space::os
