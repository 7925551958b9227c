// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/os/fd.h"
#include "node/doctor/looks.h"
#include "node/process/run.h"

namespace space::node::doctor {
namespace {

constexpr const char* kRules =
    "table inet doctor {\n"
    "  set allowed { type ipv4_addr; flags timeout; }\n"
    "  chain input {\n"
    "    type filter hook input priority 0; policy drop;\n"
    "    ip saddr @allowed counter accept\n"
    "  }\n"
    "}\n";
constexpr const char* kTproxyRules =
    "table inet doctor {\n"
    "  chain pre {\n"
    "    type filter hook prerouting priority mangle; policy drop;\n"
    "    meta l4proto tcp tproxy ip to :15001 meta mark set 1 accept\n"
    "  }\n"
    "}\n";

Finding load(const char* rules) {
  return in_child(CLONE_NEWNET, Status::kWarn, [rules]() -> Finding {
    auto finished = process::run({{"nft", "-f", "-"}, rules, std::chrono::seconds(3)});
    if (!finished.ok()) return {Status::kWarn, finished.error().message};
    if (finished->exit_code != 0)
      return {Status::kWarn, "nft refused the rules: " + escape(finished->output)};
    return {Status::kOk, "loaded in a new network namespace"};
  });
}

}  // namespace

Finding look_at_tap() {
  return in_child(CLONE_NEWNET, Status::kWarn, []() -> Finding {
    os::Fd tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
    if (!tun) return {Status::kWarn, errno_error(errno, "", "open /dev/net/tun").message};
    ifreq request{};
    std::strncpy(request.ifr_name, "doctor%d", sizeof request.ifr_name - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (::ioctl(tun.get(), TUNSETIFF, &request) != 0)
      return {Status::kWarn, errno_error(errno, "", "make a tap").message};
    return {Status::kOk, std::string("made ") + request.ifr_name + " in a new network namespace"};
  });
}

Finding look_at_nftables() {
  return load(kRules);
}
Finding look_at_tproxy() {
  return load(kTproxyRules);
}

}  // namespace space::node::doctor
