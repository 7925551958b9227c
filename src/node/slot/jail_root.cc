// SPDX-License-Identifier: Apache-2.0
#include "node/slot/jail_root.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <set>

#include "lib/os/file.h"
#include "node/process/run.h"
#include "node/template/digest.h"

namespace space::node::slot {
namespace {

constexpr const char* kReason = "node.jail_root";
constexpr std::string_view kPrefix = "jailroot-";
constexpr std::size_t kHashCharacters = 16;
constexpr const char* kLinkers[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

Result<std::string> linker() {
  for (const char* path : kLinkers) {
    if (os::exists(path)) return std::string(path);
  }
  return make_error(Code::kFailedPrecondition, kReason,
                    "the dynamic linker of this machine is not at a known place");
}

Result<std::vector<std::string>> libraries_of(const std::string& program) {
  SPACE_TRY(std::string ld, linker());
  SPACE_TRY(auto listed, process::run({{ld, "--list", program}, {}}));
  if (listed.exit_code != 0) {
    return make_error(Code::kFailedPrecondition, kReason,
                      "cannot list the libraries of " + program + ": " + escape(listed.output));
  }
  auto libraries = parse_library_list(listed.output);
  libraries.push_back(ld);
  return libraries;
}

// Path in the jail -> what is there; sorted, so that the name doesn't depend on the order.
Result<std::map<std::string, std::string>> fingerprints(const std::set<std::string>& files) {
  std::map<std::string, std::string> all;
  for (const auto& path : files) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return errno_error(errno, kReason, "look at " + path);
    all[path] = std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
                std::to_string(info.st_mtim.tv_nsec);
  }
  return all;
}

Result<void> copy_file(const std::string& from, const std::string& to) {
  SPACE_TRY(os::Fd source, os::open_file(from, O_RDONLY));
  struct stat info{};
  if (::fstat(source.get(), &info) != 0) return errno_error(errno, kReason, "look at " + from);
  SPACE_CHECK_OK(os::make_directories(parent_of(to), 0755));
  SPACE_TRY(os::Fd target, os::open_file(to, O_WRONLY | O_CREAT | O_EXCL, 0755));
  if (::fchmod(target.get(), (info.st_mode & 0111) != 0 ? 0755 : 0644) != 0)
    return errno_error(errno, kReason, "set mode of " + to);
  for (off_t left = info.st_size; left > 0;) {
    ssize_t copied = ::sendfile(target.get(), source.get(), nullptr, static_cast<std::size_t>(left));
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return errno_error(copied < 0 ? errno : EIO, kReason, "copy " + from);
    left -= copied;
  }
  // The name of the directory promises the content, also after a power failure.
  if (::fsync(target.get()) != 0) return errno_error(errno, kReason, "sync " + to);
  return {};
}

Result<void> fill(const std::string& root, const std::set<std::string>& files,
                  const JailRootContents& contents) {
  SPACE_CHECK_OK(os::make_directory(root, 0755));
  for (const auto& path : files) SPACE_CHECK_OK(copy_file(path, root + path));
  for (const auto& path : contents.mount_dirs) SPACE_CHECK_OK(os::make_directories(root + path, 0755));
  for (const auto& path : contents.mount_files) {
    SPACE_CHECK_OK(os::make_directories(parent_of(root + path), 0755));
    SPACE_CHECK_OK(os::write_file_atomic(root + path, "", os::Durability::kBuffered, 0644));
  }
  return {};
}

}  // namespace

std::vector<std::string> parse_library_list(std::string_view output) {
  // "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f...)", "\t/lib64/ld-linux-x86-64.so.2 (0x...)"
  std::vector<std::string> paths;
  while (!output.empty()) {
    std::size_t end = std::min(output.find('\n'), output.size());
    std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    std::size_t from = line.find("=> ");
    from = from == std::string_view::npos ? line.find_first_not_of(" \t") : from + 3;
    std::size_t to = line.rfind(" (0x");
    if (from == std::string_view::npos || to == std::string_view::npos || to <= from || line[from] != '/')
      continue;
    paths.emplace_back(line.substr(from, to - from));
  }
  return paths;
}

Result<JailRoot> prepare_jail_root(const std::string& node_dir, const JailRootContents& contents) {
  std::set<std::string> files(contents.files.begin(), contents.files.end());
  JailRoot root;
  std::set<std::string> directories;
  for (const auto& program : contents.programs) {
    files.insert(program);
    SPACE_TRY(auto libraries, libraries_of(program));
    for (const auto& library : libraries) {
      files.insert(library);
      directories.insert(parent_of(library));
    }
  }
  root.library_dirs.assign(directories.begin(), directories.end());
  SPACE_TRY(auto prints, fingerprints(files));
  tmpl::Sha256 hash;
  for (const auto& [path, print] : prints) hash.update(as_bytes(path + " " + print + "\n"));
  for (const auto& path : contents.mount_files) hash.update(as_bytes("file " + path + "\n"));
  for (const auto& path : contents.mount_dirs) hash.update(as_bytes("dir " + path + "\n"));
  root.path = node_dir + "/" + std::string(kPrefix) + hash.hex().substr(0, kHashCharacters);
  if (os::exists(root.path)) return root;
  std::string unfinished = root.path + ".tmp";
  SPACE_CHECK_OK(os::remove_tree(unfinished));
  SPACE_CHECK_OK(fill(unfinished, files, contents));
  if (::rename(unfinished.c_str(), root.path.c_str()) != 0)
    return errno_error(errno, kReason, "rename " + unfinished);
  return root;
}

Result<void> remove_other_jail_roots(const std::string& node_dir, const std::string& keep) {
  SPACE_TRY(auto names, os::list_directory(node_dir));
  for (const auto& name : names) {
    std::string path = node_dir + "/" + name;
    if (name.starts_with(kPrefix) && path != keep) SPACE_CHECK_OK(os::remove_tree(path));
  }
  return {};
}

}  // namespace space::node::slot
