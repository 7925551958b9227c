// SPDX-License-Identifier: Apache-2.0
#include "lib/os/confine/syscall_sets.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace space::os::confine {
namespace {

constexpr SyscallRule kProcessBasicsList[] = {
    {"brk", "heap", {}},
    {"mmap", "heap and stacks, without PROT_EXEC", argument_lacks(2, PROT_EXEC)},
    {"mprotect", "growing a heap arena, without PROT_EXEC", argument_lacks(2, PROT_EXEC)},
    {"munmap", "heap", {}},
    {"mremap", "realloc of large blocks", {}},
    {"madvise", "giving freed memory back", {}},
    {"read", "open descriptors", {}},
    {"readv", "open descriptors", {}},
    {"write", "open descriptors: sockets, the log", {}},
    {"writev", "open descriptors, messages of abort()", {}},
    {"close", "descriptors that are done", {}},
    {"dup", "a second waiter on a socket", {}},
    {"fcntl", "flags of open descriptors", {}},
    {"lseek", "stdio asks whether a descriptor can seek", {}},
    {"fstat", "stdio asks what a descriptor is", {}},
    {"newfstatat", "what fstat() of newer C libraries calls; metadata only",
     int_argument_is(3, AT_EMPTY_PATH)},
    {"futex", "locks inside the C and C++ libraries", {}},
    {"getrandom", "nonces, hash seeds", {}},
    {"clock_gettime", "time, where the vDSO can't give it", {}},
    {"clock_getres", "time", {}},
    {"gettimeofday", "time", {}},
    {"clock_nanosleep", "a pause inside a library", {}},
    {"rt_sigaction", "signal handlers", {}},
    {"rt_sigprocmask", "abort(), blocking signals around library calls", {}},
    {"rt_sigreturn", "returning from a signal handler", {}},
    {"sigaltstack", "handlers of the sanitizers", {}},
    {"restart_syscall", "the kernel resumes an interrupted wait", {}},
    {"getpid", "abort(), logs", {}},
    {"gettid", "abort()", {}},
    {"tgkill", "abort() raises a signal in the process itself", {}},
    {"sched_yield", "spinning in library locks", {}},
    {"exit", "a thread ends", {}},
    {"exit_group", "the process ends", {}},
};

constexpr SyscallRule kThreadsList[] = {
    {"clone", "new threads of this process", ArgumentTest{0, 0x10000, 0x10000}},  // CLONE_THREAD
    {"set_robust_list", "start of a thread", {}},
    {"rseq", "start of a thread", {}},
    {"sched_getaffinity", "number of processors", {}},
    {"prctl", "names of threads", int_argument_is(0, 15)},  // PR_SET_NAME
};

constexpr SyscallRule kEventLoopList[] = {
    {"epoll_create1", "the loop", {}},
    {"epoll_ctl", "the loop", {}},
    {"epoll_wait", "the loop", {}},
    {"epoll_pwait", "the loop", {}},
    {"poll", "waiting for one descriptor", {}},
    {"ppoll", "waiting for one descriptor", {}},
    {"eventfd2", "waking the loop", {}},
    {"timerfd_create", "deadlines", {}},
    {"timerfd_settime", "deadlines", {}},
    {"ioctl", "non-blocking mode", int_argument_is(1, FIONBIO)},
    {"ioctl", "bytes that wait in a descriptor", int_argument_is(1, FIONREAD)},
};

constexpr SyscallRule kOpenSocketsList[] = {
    {"accept4", "connections to the sockets that were handed down", {}},
    {"accept", "as accept4", {}},
    {"recvmsg", "bytes and passed descriptors", {}},
    {"sendmsg", "bytes and passed descriptors", {}},
    {"recvfrom", "bytes", {}},
    {"sendto", "bytes", {}},
    {"shutdown", "half-closing", {}},
    {"getsockopt", "errors, the peer's user", {}},
    {"getsockname", "Asio asks for the protocol of a descriptor", {}},
    {"getpeername", "Asio asks whether a socket is connected", {}},
};

constexpr SyscallRule kEscapesList[] = {
    {"execve", "starting a program", {}},
    {"execveat", "starting a program", {}},
    {"fork", "a new process", {}},
    {"vfork", "a new process", {}},
    {"ptrace", "another process's memory", {}},
    {"process_vm_readv", "another process's memory", {}},
    {"process_vm_writev", "another process's memory", {}},
    {"pidfd_getfd", "another process's descriptors", {}},
    {"kcmp", "another process's kernel objects", {}},
    {"mount", "the file system tree", {}},
    {"umount2", "the file system tree", {}},
    {"pivot_root", "the file system tree", {}},
    {"chroot", "the file system tree", {}},
    {"move_mount", "the file system tree", {}},
    {"open_tree", "the file system tree", {}},
    {"fsopen", "the file system tree", {}},
    {"fsmount", "the file system tree", {}},
    {"fsconfig", "the file system tree", {}},
    {"unshare", "new namespaces enlarge what of the kernel can be reached", {}},
    {"setns", "other namespaces", {}},
    {"init_module", "kernel code", {}},
    {"finit_module", "kernel code", {}},
    {"delete_module", "kernel code", {}},
    {"kexec_load", "kernel code", {}},
    {"kexec_file_load", "kernel code", {}},
    {"bpf", "kernel code", {}},
    {"perf_event_open", "a frequent way into the kernel", {}},
    {"userfaultfd", "stops kernel code at will: a tool of exploits", {}},
    {"io_uring_setup", "reaches the kernel past this filter", {}},
    {"io_uring_enter", "reaches the kernel past this filter", {}},
    {"io_uring_register", "reaches the kernel past this filter", {}},
    {"keyctl", "the kernel's keys", {}},
    {"add_key", "the kernel's keys", {}},
    {"request_key", "the kernel's keys", {}},
    {"open_by_handle_at", "files past every directory permission", {}},
    {"name_to_handle_at", "prepares open_by_handle_at", {}},
    {"iopl", "hardware", {}},
    {"ioperm", "hardware", {}},
    {"swapon", "the machine's memory", {}},
    {"swapoff", "the machine's memory", {}},
    {"reboot", "the machine", {}},
    {"settimeofday", "the machine's clock", {}},
    {"clock_settime", "the machine's clock", {}},
    {"acct", "writes files from inside the kernel", {}},
    {"quotactl", "file systems", {}},
    {"personality", "turns address randomisation off", {}},
};

}  // namespace

const std::span<const SyscallRule> kProcessBasics = kProcessBasicsList;
const std::span<const SyscallRule> kThreads = kThreadsList;
const std::span<const SyscallRule> kEventLoop = kEventLoopList;
const std::span<const SyscallRule> kOpenSockets = kOpenSocketsList;
const std::span<const SyscallRule> kEscapes = kEscapesList;

}  // namespace space::os::confine
