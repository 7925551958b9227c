// SPDX-License-Identifier: Apache-2.0
#include "guest/command/clone_child.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

namespace space::guest {
namespace {

constexpr std::size_t kStackBytes = 32u << 10;

// SAFETY: the child never returns into this frame: it runs on its own stack, calls `child`, which ends in
// execve or _exit, and the instruction behind the call traps. The parent continues with its registers as the
// kernel kept them.
[[gnu::noinline]] long clone3_and_run(clone_args* args, ChildMain child, void* argument) {
#if defined(__x86_64__)
  long result;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[child]\n\t"
      "hlt\n\t"
      "1:\n\t"
      : "=a"(result)
      : "a"(static_cast<long>(SYS_clone3)), "D"(args),
        "S"(sizeof *args), [child] "r"(child), [argument] "r"(argument)
      : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long result asm("x0") =
      reinterpret_cast<long>(args);  // SAFETY: a register argument of the system call
  register long size asm("x1") = sizeof *args;
  register long number asm("x8") = SYS_clone3;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x0, %[argument]\n\t"
      "blr %[child]\n\t"
      "brk #1\n\t"
      "1:\n\t"
      : "+r"(result)
      : "r"(size), "r"(number), [child] "r"(child), [argument] "r"(argument)
      : "memory", "cc", "x30");
  return result;
#else
#error "clone_child needs the system call convention of this architecture"
#endif
}

}  // namespace

pid_t clone_child(ChildMain child, void* argument, int cgroup, pid_t* pid_out) {
  // In this frame, which waits: mapping and unmapping a stack costs more than the rest of the call under
  // emulation.
  alignas(16) std::byte stack[kStackBytes];
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | CLONE_CLEAR_SIGHAND;
  args.parent_tid = reinterpret_cast<std::uintptr_t>(pid_out);  // SAFETY: outlives the call
  args.exit_signal = SIGCHLD;
  args.stack =
      reinterpret_cast<std::uintptr_t>(stack);  // SAFETY: the child has left it when we go on (VFORK)
  args.stack_size = kStackBytes;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  return static_cast<pid_t>(clone3_and_run(&args, child, argument));
}

}  // namespace space::guest
