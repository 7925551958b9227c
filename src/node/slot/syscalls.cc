// SPDX-License-Identifier: Apache-2.0
#include "node/slot/syscalls.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <termios.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "lib/os/confine/syscall_sets.h"

namespace space::node::slot {
namespace confine = os::confine;
namespace {

using confine::ArgumentTest;
using confine::int_argument_is;
using confine::SyscallRule;

constexpr std::uint64_t kCloneThread = 0x10000;
// _IOC_TYPE of every KVM request.
constexpr ArgumentTest kKvmRequest{1, 0xff00, 0xae00};

constexpr SyscallRule kQemuCallsList[] = {
    {"execve", "the jail becomes QEMU; from then on QEMU's own filter kills it (-sandbox spawn=deny)", {}},

    {"brk", "heap", {}},
    {"mmap", "guest memory, heap, stacks, translated code (TCG executes what it writes)", {}},
    {"mprotect", "the dynamic linker; stack guards; write protection of guest code pages (TCG)", {}},
    {"munmap", "heap, stacks", {}},
    {"mremap", "realloc of large blocks", {}},
    {"madvise", "malloc gives memory back", int_argument_is(2, MADV_DONTNEED)},
    {"madvise", "guest memory has no part in core dumps", int_argument_is(2, MADV_DONTDUMP)},
    {"madvise", "guest memory isn't inherited", int_argument_is(2, MADV_DONTFORK)},
    {"madvise", "no huge pages", int_argument_is(2, MADV_NOHUGEPAGE)},
    {"madvise", "normal access to guest memory", int_argument_is(2, MADV_NORMAL)},
    {"madvise", "malloc of newer C libraries", int_argument_is(2, MADV_FREE)},

    {"openat", "libraries, firmware, kernel, disks: what the jail holds", {}},
    {"access", "the dynamic linker and the firmware search ask for files", {}},
    {"faccessat", "as access", {}},
    {"faccessat2", "as access", {}},
    {"newfstatat", "stat and fstat of the C library", {}},
    {"fstat", "as newfstatat", {}},
    {"statx", "stat of newer C libraries", {}},
    {"statfs", "the kind of file system below the memory file", {}},
    {"fstatfs", "as statfs; alignment of direct I/O", {}},
    {"readlink", "where the program lies", {}},
    {"getcwd", "where the program lies", {}},
    {"getdents64", "library constructors list processors", {}},
    {"fchdir", "libfuse and libnuma constructors go back to where they were", {}},
    {"chdir", "as fchdir", {}},
    {"unlink", "QEMU removes its socket's name at the end; there is none in the jail", {}},
    {"ftruncate", "the overlay grows; size of the memory file", {}},
    {"fallocate", "discarded blocks of the guest become holes", {}},
    {"fdatasync", "closing the disk", {}},
    {"fsync", "closing the disk", {}},
    {"lseek", "holes of the disk; size of the kernel file", {}},
    {"read", "sockets, files, wake-ups", {}},
    {"readv", "sockets", {}},
    {"pread64", "disk", {}},
    {"preadv", "disk", {}},
    {"preadv2", "disk, newer C libraries", {}},
    {"write", "sockets, wake-ups, stderr", {}},
    {"writev", "sockets", {}},
    {"pwrite64", "disk", {}},
    {"pwritev", "disk", {}},
    {"pwritev2", "disk, newer C libraries", {}},
    {"close", "files, sockets", {}},
    {"dup", "monitors and disks keep a descriptor of their own", {}},
    {"dup3", "as dup", {}},
    {"fcntl", "flags; locks of disk images", {}},
    {"memfd_create", "QEMU probes for it; the hand-over of device state uses it", {}},

    {"accept4", "the host connects to channel, monitor and console", {}},
    {"accept", "as accept4", {}},
    {"listen", "on the sockets that were handed down", {}},
    {"getsockname", "what kind of socket was handed down", {}},
    {"getpeername", "names of connections", {}},
    {"getsockopt", "as getsockname; errors", {}},
    {"setsockopt", "options of accepted connections", {}},
    {"recvmsg", "bytes and passed descriptors", {}},
    {"sendmsg", "bytes", {}},
    {"recvfrom", "bytes", {}},
    {"sendto", "bytes", {}},
    {"shutdown", "closing connections", {}},

    {"clone", "threads: virtual processors, disk workers", ArgumentTest{0, kCloneThread, kCloneThread}},
    {"set_robust_list", "start of a thread", {}},
    {"set_tid_address", "start of the program", {}},
    {"rseq", "start of a thread", {}},
    {"arch_prctl", "start of the program: thread-local storage", {}},
    {"futex", "locks, waiting virtual processors", {}},
    {"sched_getaffinity", "number of processors", {}},
    {"sched_yield", "spinning in locks", {}},
    {"get_robust_list", "ends of threads", {}},
    {"prctl", "names of threads", int_argument_is(0, PR_SET_NAME)},
    {"prctl", "names of threads", int_argument_is(0, PR_GET_NAME)},
    {"prctl", "precise timers", int_argument_is(0, PR_SET_TIMERSLACK)},
    {"prctl", "QEMU sets it again for its own filter", int_argument_is(0, PR_SET_NO_NEW_PRIVS)},
    {"prctl", "KVM: memory errors come as signals", int_argument_is(0, PR_MCE_KILL)},
    {"seccomp", "QEMU's own filter on top of this one", {}},

    {"rt_sigaction", "signal handlers", {}},
    {"rt_sigprocmask", "threads block signals", {}},
    {"rt_sigreturn", "returning from a signal handler: TCG catches faults of translated code", {}},
    {"rt_sigtimedwait", "the signal that interrupts a virtual processor (KVM)", {}},
    {"rt_sigpending", "as rt_sigtimedwait", {}},
    {"sigaltstack", "coroutines", {}},
    {"signalfd4", "SIGTERM as a descriptor", {}},
    {"tgkill", "waking a virtual processor; abort()", {}},
    {"getpid", "start, abort()", {}},
    {"getppid", "start", {}},
    {"gettid", "names of threads, abort()", {}},
    {"getuid", "library constructors", {}},
    {"geteuid", "library constructors", {}},
    {"getgid", "library constructors", {}},
    {"getegid", "library constructors", {}},
    {"exit", "a thread ends", {}},
    {"exit_group", "the end", {}},
    {"restart_syscall", "the kernel resumes an interrupted wait", {}},

    {"poll", "the main loop", {}},
    {"ppoll", "the main loop", {}},
    {"epoll_create1", "the disk's loop", {}},
    {"epoll_ctl", "the disk's loop", {}},
    {"epoll_wait", "the disk's loop", {}},
    {"epoll_pwait", "the disk's loop", {}},
    {"eventfd2", "wake-ups", {}},
    {"pipe2", "wake-ups", {}},
    {"timerfd_create", "deadlines", {}},
    {"timerfd_settime", "deadlines", {}},
    {"ioctl", "non-blocking mode", int_argument_is(1, FIONBIO)},
    {"ioctl", "is stderr a terminal", int_argument_is(1, TCGETS)},
    {"ioctl", "KVM, where the jail has /dev/kvm", kKvmRequest},

    {"clock_gettime", "time, where the vDSO can't give it", {}},
    {"clock_getres", "time", {}},
    {"clock_nanosleep", "pauses of the throttled translator and of locks", {}},
    {"nanosleep", "as clock_nanosleep", {}},
    {"gettimeofday", "time", {}},
    {"getrandom", "hash seeds, the guest's entropy", {}},
    {"sysinfo", "size of the translation buffer", {}},
    {"uname", "library constructors", {}},
    {"getrusage", "statistics", {}},
    {"prlimit64", "reading limits, not setting them", confine::argument_is(2, 0)},
};

constexpr SyscallRule kQemuAbsentCallsList[] = {
    {"clone3", "its flags can't be examined; the C library falls back to clone", {}},
    {"io_uring_setup", "QEMU's loop falls back to epoll and poll", {}},
    {"get_mempolicy", "libnuma's constructor; no placement is wanted", {}},
    {"set_mempolicy", "as get_mempolicy", {}},
    {"mbind", "as get_mempolicy", {}},
    {"membarrier", "QEMU falls back to fences", {}},
    {"sched_setscheduler", "priorities are the host's business", {}},
    {"sched_setaffinity", "as sched_setscheduler", {}},
};

bool named(std::span<const SyscallRule> rules, const char* name) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const SyscallRule& rule) { return std::string_view(rule.name) == name; });
}

}  // namespace

const std::span<const SyscallRule> kQemuCalls = kQemuCallsList;
const std::span<const SyscallRule> kQemuAbsentCalls = kQemuAbsentCallsList;

Result<std::optional<confine::SyscallPolicy>> policy_for(SyscallProfile profile) {
  if (profile == SyscallProfile::kNone) return std::optional<confine::SyscallPolicy>();
  // The shared list of escapes holds a few calls that this program has to be told about differently.
  std::vector<SyscallRule> escapes;
  for (const auto& rule : confine::kEscapes) {
    if (!named(kQemuCalls, rule.name) && !named(kQemuAbsentCalls, rule.name)) escapes.push_back(rule);
  }
  SPACE_TRY(auto policy, confine::SyscallPolicyBuilder(confine::Refusal::kPermissionError)
                             .allow(kQemuCalls)
                             .refuse(kQemuAbsentCalls, confine::Refusal::kNoSuchCall)
                             .refuse(escapes, confine::Refusal::kKillProcess)
                             .build());
  return std::optional<confine::SyscallPolicy>(std::move(policy));
}

}  // namespace space::node::slot
