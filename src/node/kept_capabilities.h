// SPDX-License-Identifier: Apache-2.0
#pragma once
// The capabilities that space-node keeps of root's. Data; everything else is given up before the first
// request.

#include <linux/capability.h>

#include "lib/os/confine/capabilities.h"

namespace space::node {

inline constexpr os::confine::KeptCapability kKeptCapabilities[] = {
    {CAP_SYS_ADMIN, "namespaces, mounts and pivot_root of jails and template builds"},
    {CAP_NET_ADMIN, "network namespaces and taps of slots"},
    {CAP_SYS_PTRACE, "reading which pages of a VMM changed"},
    {CAP_SYS_RESOURCE, "limits of jails above the soft ones of this process"},
    {CAP_KILL, "ending VMMs, which are other users"},
    {CAP_SETUID, "a user of its own for each sandbox"},
    {CAP_SETGID, "as CAP_SETUID"},
    {CAP_SETPCAP, "emptying the bounding set of jails"},
    {CAP_CHOWN, "overlay and memory files belong to the sandbox's user; files of templates to theirs"},
    {CAP_FOWNER, "modes of files that belong to another user (template builds)"},
    {CAP_FSETID, "set-group-id directories of templates"},
    {CAP_DAC_OVERRIDE, "removing what belongs to a sandbox's user; template builds"},
    {CAP_SYS_CHROOT, "package scripts of template builds"},
    {CAP_MKNOD, "the four devices of a jail's /dev; device files of templates"},
    {CAP_SETFCAP, "file capabilities of packages in templates"},
};

}  // namespace space::node
