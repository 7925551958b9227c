// SPDX-License-Identifier: Apache-2.0
#include "guest/file/path.h"

#include <cerrno>

#include "lib/base/bytes.h"

namespace space::guest {
namespace {

const char* reason_of(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "guest.no_such_file";
    case ENOTDIR:
      return "guest.not_a_directory";
    case EISDIR:
      return "guest.is_a_directory";
    case EEXIST:
      return "guest.exists";
    case ENOTEMPTY:
      return "guest.not_empty";
    case ENOSPC:
    case EDQUOT:
      return "guest.disk_full";
    case EACCES:
    case EPERM:
      return "guest.permission_denied";
    case ENAMETOOLONG:
      return "guest.name_too_long";
    case EROFS:
      return "guest.read_only";
    case ELOOP:
      return "guest.too_many_links";
    case EBUSY:
    case ETXTBSY:
      return "guest.busy";
    case EXDEV:
      return "guest.cross_device";
    case EFBIG:
      return "guest.file_too_large";
    case EMFILE:
    case ENFILE:
      return "guest.too_many_open_files";
    default:
      return "guest.file";
  }
}

}  // namespace

Result<void> check_path(std::string_view path, std::string_view field) {
  const char* problem = path.empty()                                ? "may not be empty"
                        : path.front() != '/'                       ? "must be absolute: begin with /"
                        : path.find('\0') != std::string_view::npos ? "may not hold a zero byte"
                        : path.size() > 4095                        ? "may have at most 4095 bytes"
                                                                    : nullptr;
  if (problem == nullptr) return {};
  return field_error(std::string(field), "guest.malformed_path", "the path " + std::string(problem));
}

Error file_error(int error_number, std::string_view verb, std::string_view path) {
  return errno_error(error_number, reason_of(error_number), std::string(verb) + " " + escape(path, 256));
}

std::string without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::string parent_of(std::string_view path) {
  std::string clean = without_trailing_slashes(path);
  std::size_t slash = clean.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : clean.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace space::guest
