// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/modules.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "guest/core/log.h"
#include "guest/core/small_file.h"
#include "lib/base/error.h"
#include "lib/os/fd.h"

namespace space::guest::boot {

void load_modules(const std::string& directory) {
  std::string order = read_small((directory + "/order").c_str());
  for (std::string_view rest = order; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (name.empty()) continue;
    std::string path = directory + "/" + std::string(name);
    os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || (::syscall(SYS_finit_module, file.get(), "", 0) != 0 && errno != EEXIST)) {
      log_line("module", errno_error(errno, "", path).message);
    }
    ::unlink(path.c_str());
  }
  ::unlink((directory + "/order").c_str());
  ::rmdir(directory.c_str());
}

}  // namespace space::guest::boot
