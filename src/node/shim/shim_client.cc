// SPDX-License-Identifier: Apache-2.0
#include "node/shim/shim_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "lib/os/file.h"
#include "node/shim/shim_protocol.h"

namespace space::node::shim {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 47;

const char* refusal(std::uint32_t status) {
  switch (status) {
    case SPACE_SHIM_BAD_MESSAGE:
      return "the VMM's library did not understand the request; is it of another version?";
    case SPACE_SHIM_NO_DESCRIPTOR:
      return "the VMM's library got no image";
    case SPACE_SHIM_WRONG_SIZE:
      return "the image does not have the size of the guest's memory";
    case SPACE_SHIM_ALREADY_BOUND:
      return "the VMM has an image already; a slot is used once";
    case SPACE_SHIM_AMBIGUOUS:
      return "the VMM mapped its memory in an unexpected way";
    default:
      return "the VMM's library answered with an unknown status";
  }
}

std::string problem(const space_shim_answer& answer) {
  const char* step = "";
  switch (answer.step) {
    case SPACE_SHIM_STEP_NONE:
      return "tracking was not asked for";
    case SPACE_SHIM_STEP_OPEN:
      step = "userfaultfd is not available: ";
      break;
    case SPACE_SHIM_STEP_FEATURES:
      step = "the kernel has no asynchronous write protection (Linux 6.7): ";
      break;
    case SPACE_SHIM_STEP_REGISTER:
      step = "the mapping can't be registered for write protection: ";
      break;
    case SPACE_SHIM_STEP_PROTECT:
      step = "the mapping can't be write protected: ";
      break;
    default:
      step = "arming failed: ";
  }
  char text[128] = {};
  int number = answer.tracking_errno > 0 && answer.tracking_errno < 4096 ? answer.tracking_errno : 0;
  return std::string(step) + ::strerror_r(number, text, sizeof text);
}

// SOCK_SEQPACKET cousin of os::connect_unix.
Result<os::Fd> connect_packets(const std::string& path) {
  os::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_error(errno, "shim.unreachable", "socket");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  os::Fd directory;
  std::string reach = path;
  if (path.size() >= sizeof name.sun_path) {
    auto slash = path.rfind('/');
    if (slash == std::string::npos)
      return make_error(Code::kInvalidArgument, "shim.unreachable", "the socket's name is too long");
    SPACE_TRY(directory, os::open_file(path.substr(0, slash), O_PATH | O_DIRECTORY));
    reach = "/proc/self/fd/" + std::to_string(directory.get()) + path.substr(slash);
    if (reach.size() >= sizeof name.sun_path)
      return make_error(Code::kInvalidArgument, "shim.unreachable", "the socket's name is too long");
  }
  std::memcpy(name.sun_path, reach.c_str(), reach.size() + 1);
  // SAFETY: sockaddr_un is what an AF_UNIX socket expects behind sockaddr*.
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    auto error = errno_error(errno, "shim.unreachable", "connect to the VMM's library at " + path);
    if (errno == ECONNREFUSED || errno == EAGAIN) error.code = Code::kUnavailable;
    return error;
  }
  return socket;
}

}  // namespace

Result<Mapping> check_answer(const void* bytes, std::size_t length, std::uint16_t kind, std::uint64_t id,
                             std::uint64_t expected_size_bytes) {
  auto malformed = [](const char* what) {
    return make_error(Code::kDataLoss, "shim.malformed_answer",
                      std::string("the VMM's library answered nonsense: ") + what);
  };
  space_shim_answer answer{};
  if (length != sizeof answer) return malformed("wrong length");
  std::memcpy(&answer, bytes, sizeof answer);
  if (answer.magic != SPACE_SHIM_ANSWER_MAGIC || answer.version != SPACE_SHIM_VERSION)
    return malformed("wrong version");
  if (answer.status != SPACE_SHIM_OK)
    return make_error(Code::kFailedPrecondition, "shim.refused", refusal(answer.status));
  if (answer.kind != kind || answer.id != id) return malformed("an answer to something else");
  if (answer.size != expected_size_bytes) {
    return make_error(Code::kFailedPrecondition, "shim.refused",
                      "the VMM's memory does not have the size of the session's");
  }
  if (answer.size == 0 || answer.size % kPageBytes != 0 || answer.address % kPageBytes != 0 ||
      answer.address == 0 || answer.address >= kUserSpaceEnd ||
      answer.size > kUserSpaceEnd - answer.address) {
    return malformed("an impossible address");
  }
  if ((answer.state & ~std::uint32_t{SPACE_SHIM_STATE_BOUND | SPACE_SHIM_STATE_ARMED}) != 0)
    return malformed("an unknown state");
  Mapping mapping;
  mapping.address = answer.address;
  mapping.size_bytes = answer.size;
  mapping.bound = (answer.state & SPACE_SHIM_STATE_BOUND) != 0;
  mapping.armed = (answer.state & SPACE_SHIM_STATE_ARMED) != 0;
  if (kind == SPACE_SHIM_BIND && !mapping.bound) return malformed("bound nothing");
  if (!mapping.armed) {
    mapping.tracking_errno = answer.tracking_errno;
    mapping.tracking_problem = problem(answer);
  }
  return mapping;
}

Result<ShimClient> ShimClient::connect(const std::string& path, std::uint64_t expected_size_bytes,
                                       std::chrono::milliseconds timeout) {
  SPACE_TRY(os::Fd socket, connect_packets(path));
  return ShimClient(std::move(socket), expected_size_bytes, timeout);
}

Result<Mapping> ShimClient::ask(std::uint16_t kind, std::uint64_t size, int fd) {
  space_shim_request request{SPACE_SHIM_REQUEST_MAGIC, SPACE_SHIM_VERSION, kind, next_id_++, size};
  iovec part{&request, sizeof request};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request)) {
    auto error = errno_error(errno, "shim.unreachable", "ask the VMM's library");
    error.code = Code::kUnavailable;
    return error;
  }
  auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd wait{socket_.get(), POLLIN, 0};
    int ready = ::poll(&wait, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno_error(errno, "shim.unreachable", "poll");
    if (ready == 0)
      return make_error(Code::kDeadlineExceeded, "shim.timeout", "the VMM's library did not answer");
    char bytes[sizeof(space_shim_answer) + 1];  // one more, to see an answer that is too long
    ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0)
      return make_error(Code::kUnavailable, "shim.unreachable", "the VMM ended or closed the connection");
    return check_answer(bytes, static_cast<std::size_t>(got), kind, request.id, size_);
  }
}

Result<Mapping> ShimClient::bind(int image) {
  return ask(SPACE_SHIM_BIND, size_, image);
}
Result<Mapping> ShimClient::track() {
  return ask(SPACE_SHIM_TRACK, 0, -1);
}
Result<Mapping> ShimClient::query() {
  return ask(SPACE_SHIM_QUERY, 0, -1);
}

}  // namespace space::node::shim
