// SPDX-License-Identifier: Apache-2.0
#include "supervise/data_directory.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "lib/base/bytes.h"
#include "lib/base/id.h"
#include "lib/base/size.h"
#include "lib/os/file.h"

namespace space::supervise {
namespace {

constexpr std::uint32_t kFirstBase = 1u << 30;
constexpr std::uint32_t kBases = 4096;
constexpr std::size_t kKeyBytes = 32;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string base64url(ByteView bytes) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  unsigned bits = 0;
  unsigned held = 0;
  for (std::byte byte : bytes) {
    held = held << 8 | std::to_integer<unsigned>(byte);
    for (bits += 8; bits >= 6; bits -= 6) out += kAlphabet[held >> (bits - 6) & 63];
  }
  if (bits > 0) out += kAlphabet[held << (6 - bits) & 63];
  return out;
}

Result<void> own(const std::string& path, uid_t owner, mode_t mode) {
  if (::chmod(path.c_str(), mode) != 0 || ::lchown(path.c_str(), owner, owner) != 0) {
    return errno_error(errno, "os.file", "set owner and mode of " + path);
  }
  return {};
}

// Files of a directory that changed its owner, as after another uid base.
Result<void> own_files(const std::string& path, uid_t owner) {
  SPACE_TRY(auto names, os::list_directory(path));
  for (const auto& name : names) {
    std::string inner = path + "/" + name;
    struct stat info{};
    if (::lstat(inner.c_str(), &info) != 0 || info.st_uid == owner) continue;
    if (::lchown(inner.c_str(), owner, owner) != 0)
      return errno_error(errno, "os.file", "set owner of " + inner);
    if (S_ISDIR(info.st_mode)) SPACE_CHECK_OK(own_files(inner, owner));
  }
  return {};
}

}  // namespace

Result<UserIds> user_ids(const std::string& node_id, std::uint64_t wanted) {
  if (wanted == 0)
    return UserIds{kFirstBase + static_cast<std::uint32_t>(fnv1a(node_id) % kBases) * kUidsPerNode};
  if (wanted < 65536 || wanted > 0xffffffffU - kUidsPerNode - 1) {
    return make_error(Code::kInvalidArgument, "supervise.usage",
                      "the uid base must be at least 65536, and 16384 ids from it on must exist");
  }
  return UserIds{static_cast<std::uint32_t>(wanted)};
}

Result<DataLock> DataLock::take(const std::string& path, int patience_ms) {
  SPACE_TRY(os::Fd fd, os::open_file(path, O_RDWR | O_CREAT, 0600));
  for (int waited = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; waited += 50) {
    if (errno != EWOULDBLOCK && errno != EINTR) return errno_error(errno, "os.file", "lock " + path);
    if (waited >= patience_ms) {
      auto holder = os::read_file(path, 64);
      std::string pid = holder.ok() ? trimmed(*holder) : "";
      return make_error(Code::kFailedPrecondition, "supervise.in_use",
                        "this data directory is held by another space up" +
                            (pid.empty() ? "" : " (pid " + escape(pid) + ")") +
                            "; stop that one or name another directory with --data");
    }
    ::poll(nullptr, 0, 50);
  }
  std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0) return errno_error(errno, "os.file", "write " + path);
  SPACE_CHECK_OK(os::write_all(fd.get(), as_bytes(pid)));
  return DataLock(std::move(fd));
}

Result<DataDirectory> open_data_directory(const std::string& path, std::uint64_t min_free) {
  if (path.empty()) return make_error(Code::kInvalidArgument, "supervise.usage", "--data names no directory");
  char here[PATH_MAX];
  std::string absolute = path;
  if (path[0] != '/') {
    if (::getcwd(here, sizeof here) == nullptr)
      return errno_error(errno, "os.file", "find the working directory");
    absolute = std::string(here) + "/" + path;
  }
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  bool fresh = !os::exists(absolute);
  SPACE_CHECK_OK(os::make_directories(absolute, 0755));
  if (fresh && ::chmod(absolute.c_str(), 0700) != 0)
    return errno_error(errno, "os.file", "set the mode of " + absolute);
  char real[PATH_MAX];
  if (::realpath(absolute.c_str(), real) == nullptr)
    return errno_error(errno, "os.file", "resolve " + absolute);
  std::string root = real;
  if (root.find(':') != std::string::npos)
    return make_error(Code::kInvalidArgument, "supervise.usage",
                      "the data directory's path must not have a colon");
  SPACE_TRY(std::uint64_t free, os::free_bytes(root));
  if (free < min_free) {
    return make_error(Code::kResourceExhausted, "supervise.no_space",
                      "not enough disk space at " + root + ": " + std::to_string(free >> 20) +
                          " MiB are free, " + format_size(min_free) +
                          " are needed; free some, or lower --min-free");
  }
  return DataDirectory{root};
}

Result<std::string> node_id(const DataDirectory& data, os::Random& random) {
  std::string path = data.in("node.id");
  if (!os::exists(path))
    SPACE_CHECK_OK(os::write_file_atomic(path, random.id_text() + "\n", os::Durability::kSynced, 0644));
  SPACE_TRY(std::string text, os::read_file(path, 256));
  text = trimmed(text);
  if (!is_well_formed_id(text)) {
    return make_error(Code::kDataLoss, "supervise.damaged",
                      path + " holds no node id; restore it, since names of what runs contain it");
  }
  return text;
}

Result<std::string> admin_key(const DataDirectory& data, os::Random& random) {
  std::string path = data.in("admin.key");
  if (!os::exists(path)) {
    std::array<std::byte, kKeyBytes> secret{};
    random.fill(secret);
    SPACE_CHECK_OK(
        os::write_file_atomic(path, "space_" + base64url(secret) + "\n", os::Durability::kSynced, 0600));
  }
  SPACE_TRY(std::string text, os::read_file(path, 256));
  text = trimmed(text);
  if (text.size() < 16 || !text.starts_with("space_")) {
    return make_error(Code::kDataLoss, "supervise.damaged",
                      path + " holds no API key; remove it to get a new one");
  }
  return text;
}

std::string sha256_hex(const std::string& text) {
  std::array<std::byte, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  // SAFETY: bytes as OpenSSL names them.
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                 EVP_sha256(), nullptr) != 1)
    std::abort();
  return to_hex(ByteView(digest).first(length));
}

Result<void> make_layout(const DataDirectory& data, const UserIds& users) {
  struct Place {
    const char* name;
    uid_t owner;
    mode_t mode;
  };
  const Place places[] = {
      {"control", users.control(), 0700},
      {"control/logs", users.control(), 0700},
      {"run", 0, 0711},  // control looks up its sockets in it
      {"node", 0, 0711},
      {"node/templates", 0, 0755},
      {"log", 0, 0700},
  };
  for (const auto& place : places) {
    SPACE_CHECK_OK(os::make_directory(data.in(place.name), place.mode));
    SPACE_CHECK_OK(own(data.in(place.name), place.owner, place.mode));
  }
  return own_files(data.in("control"), users.control());
}

}  // namespace space::supervise
