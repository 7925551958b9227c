// SPDX-License-Identifier: Apache-2.0
#include "node/doctor/doctor.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "lib/os/file.h"
#include "node/doctor/check.h"
#include "node/doctor/looks.h"

namespace space::node::doctor {
namespace json = boost::json;
namespace {

struct Entry {
  const char* id;
  Finding (*look)();
  const char* means;
  const char* mend;
};

Finding look_at_data_disk() {
  // Where `space up` keeps its data unless told otherwise.
  return look_at_disk(os::exists("/var/lib/space") ? "/var/lib/space"
                      : os::exists("/var/lib")     ? "/var/lib"
                                                   : "/");
}

constexpr Entry kEntries[] = {
    {"root", look_at_user, "the node makes namespaces, control groups and users for sandboxes",
     "run as root: sudo space doctor"},
    {"qemu", look_at_qemu, "runs the guests", "apt-get install qemu-system-x86 qemu-system-data seabios"},
    {"kvm", look_at_kvm, "guests run at native speed; without it they are translated, 5 to 20 times slower",
     "turn on virtualisation (VT-x, AMD-V) in the firmware, or nested virtualisation on the host of this "
     "machine, and load kvm_intel or "
     "kvm_amd; sandboxes also run without"},
    {"namespaces", look_at_namespaces, "the walls of a jail",
     "use a kernel with namespaces; in a container, give it CAP_SYS_ADMIN"},
    {"seccomp", look_at_seccomp, "which system calls a machine may make",
     "use a kernel with CONFIG_SECCOMP_FILTER"},
    {"cgroups", look_at_cgroups, "limits of memory, processors and tasks, and the certain end of a sandbox",
     "mount cgroup v2 (systemd.unified_cgroup_hierarchy=1) or the v1 hierarchies memory, cpu and pids"},
    {"memory", look_at_memory, "a sandbox takes its memory and about 250 MiB more",
     "use a machine with at least 2 GiB"},
    {"disk", look_at_data_disk, "layers of sandboxes, templates, packages; 2 GiB are kept in reserve",
     "free some space, or choose another disk with --data"},
    {"clock", look_at_clock, "cheap and exact time for guests",
     "boot with clocksource=tsc if the processor has a stable one"},
    {"mmdebstrap", look_at_mmdebstrap, "builds templates from packages",
     "apt-get install mmdebstrap; not needed to run what is built"},
    {"mke2fs", look_at_mke2fs, "makes the disks of templates",
     "apt-get install e2fsprogs; not needed to run what is built"},
    {"fuse", look_at_fuse, "serves memory and disks of snapshots", "load the fuse module: modprobe fuse"},
    {"userfaultfd", look_at_write_tracking,
     "knows which memory a guest wrote since the last snapshot (asynchronous write protection, Linux 6.7)",
     "use Linux 6.7 or newer; snapshots then cost a comparison of all memory"},
    {"pagemap_scan", look_at_pagemap_scan, "reads that list from outside of the machine (Linux 6.7)",
     "use Linux 6.7 or newer"},
    {"tap", look_at_tap, "a sandbox's network card", "load the tun module: modprobe tun"},
    {"nftables", look_at_nftables, "the firewall around a sandbox",
     "apt-get install nftables; load nf_tables"},
    {"tproxy", look_at_tproxy, "sends every connection of a sandbox through the gateway",
     "load nft_tproxy: modprobe nft_tproxy"},
};

// What only root can try says nothing about the machine.
Check run(const Entry& entry) {
  Finding finding = entry.look();
  bool unknown = ::geteuid() != 0 && finding.status != Status::kOk &&
                 finding.found.find("Operation not permitted") != std::string::npos;
  if (unknown) finding = {Status::kWarn, "could not be checked without root (" + finding.found + ")"};
  return {entry.id, finding.status, finding.found, entry.means,
          finding.status == Status::kOk ? "" : entry.mend};
}

void print_line(const Check& check, bool colours) {
  const char* colour = !colours                        ? ""
                       : check.status == Status::kOk   ? "\x1b[32m"
                       : check.status == Status::kWarn ? "\x1b[33m"
                                                       : "\x1b[31m";
  std::printf("%s%-4s%s  %-13s %s\n", colour, std::string(to_string(check.status)).c_str(),
              colours ? "\x1b[0m" : "", check.id.c_str(), check.found.c_str());
  if (check.status == Status::kOk) return;
  std::printf("      %-13s for: %s\n      %-13s mend: %s\n", "", check.means.c_str(), "", check.mend.c_str());
}

}  // namespace

int doctor_main(const std::vector<std::string>& arguments) {
  bool as_json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  if (arguments.size() > (as_json ? 1U : 0U)) {
    std::fprintf(stderr, "usage: space-node doctor [--json]\n");
    return 2;
  }
  json::array all;
  bool ok = true;
  for (const auto& entry : kEntries) {
    std::fflush(stdout);  // children must not print it again
    Check check = run(entry);
    ok = ok && check.status != Status::kFail;
    if (as_json) {
      all.push_back({{"id", check.id},
                     {"status", to_string(check.status)},
                     {"found", check.found},
                     {"means", check.means},
                     {"mend", check.mend}});
    } else {
      print_line(check, ::isatty(STDOUT_FILENO) == 1);
    }
  }
  if (as_json) {
    std::puts(json::serialize(json::object{{"checks", std::move(all)}, {"ok", ok}}).c_str());
  } else {
    std::puts(ok ? "this machine can run sandboxes"
                 : "this machine can't run sandboxes: see what failed above");
  }
  return ok ? 0 : 1;
}

}  // namespace space::node::doctor
