// SPDX-License-Identifier: Apache-2.0
#include "supervise/siblings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "lib/os/file.h"

namespace space::supervise {
namespace {

Error missing(const std::string& message) {
  return make_error(Code::kFailedPrecondition, "supervise.missing", message);
}

Result<std::string> program(const std::string& directory, const char* name) {
  std::string path = directory + "/" + name;
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0)
    return missing("there is no " + path +
                   "; build or install all programs, or name their directory with --bindir");
  if (!S_ISREG(info.st_mode) || (info.st_mode & 0111U) == 0) return missing(path + " is no program");
  // Services run as users of their own, who must be able to run the file (not to reach its directory).
  if ((info.st_mode & 0005U) != 0005U)
    return missing("other users can't run " + path + "; mend it with: chmod o+rx " + path);
  return path;
}

std::string resolved(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) == nullptr ? std::string() : std::string(real);
}

std::string first_existing(const std::vector<std::string>& candidates) {
  for (const auto& path : candidates) {
    if (std::string real = resolved(path); !real.empty()) return real;
  }
  return {};
}

}  // namespace

Result<std::string> own_directory() {
  std::string self = resolved("/proc/self/exe");
  if (self.empty()) return errno_error(errno, "os.file", "find the running program");
  return self.substr(0, self.rfind('/'));
}

Result<Siblings> find_siblings(const Options& options, const DataDirectory& data) {
  std::string bin = options.bin;
  if (bin.empty()) {
    SPACE_TRY(bin, own_directory());
  } else if (bin = resolved(bin); bin.empty()) {
    return missing("there is no directory " + options.bin);
  }
  Siblings found;
  SPACE_TRY(found.control, program(bin, "space-control"));
  SPACE_TRY(found.node, program(bin, "space-node"));
  SPACE_TRY(found.link, program(bin, "space-link"));
  found.spaced = resolved(bin + "/spaced");
  for (const auto& named : options.templates) {
    std::string real = resolved(named);
    if (real.empty()) return missing("there is no template directory " + named);
    found.templates.push_back(real);
  }
  for (const auto& path :
       {bin + "/../../templates", bin + "/../share/space/templates", data.in("node/templates")}) {
    std::string real = resolved(path);
    if (real.empty() ||
        std::find(found.templates.begin(), found.templates.end(), real) != found.templates.end())
      continue;
    found.templates.push_back(real);
  }
  for (const auto& path : found.templates) {
    if (path.find(':') != std::string::npos)
      return missing("a template directory's path must not have a colon: " + path);
  }
  if (!options.recipes.empty()) {
    found.recipes = resolved(options.recipes);
    if (found.recipes.empty()) return missing("there is no recipe directory " + options.recipes);
  } else {
    found.recipes = first_existing({bin + "/../../../templates", bin + "/../share/space/recipes"});
  }
  found.openapi = first_existing({bin + "/../../../api/openapi.yaml", bin + "/../share/space/openapi.yaml"});
  return found;
}

}  // namespace space::supervise
