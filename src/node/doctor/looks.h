// SPDX-License-Identifier: Apache-2.0
#pragma once
// The looks that doctor takes. Each tries the real thing and leaves nothing behind.

#include <string>

#include "node/doctor/check.h"

namespace space::node::doctor {

// looks_machine.cc
Finding look_at_user();
Finding look_at_memory();
Finding look_at_disk(const std::string& directory);
Finding look_at_cgroups();
Finding look_at_clock();
// looks_programs.cc
Finding look_at_qemu();
Finding look_at_mmdebstrap();
Finding look_at_mke2fs();
// looks_kernel.cc
Finding look_at_kvm();
Finding look_at_namespaces();
Finding look_at_seccomp();
Finding look_at_fuse();
Finding look_at_write_tracking();
Finding look_at_pagemap_scan();
// looks_network.cc
Finding look_at_tap();
Finding look_at_nftables();
Finding look_at_tproxy();

}  // namespace space::node::doctor
