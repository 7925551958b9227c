/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into an unmodified VMM. It does four things and nothing else:
 *
 *  1. Finds the VMM's guest memory: the writable private mapping of the placeholder file named by the
 * environment.
 *  2. Serves shim_protocol.h on a socket: BIND maps an image in place of the placeholder, so that a waiting
 * VMM gets its memory late and all sandboxes of one image share its page cache; TRACK and BIND arm the
 * kernel's record of written pages (userfaultfd, asynchronous write protection), which node reads from
 * outside.
 *  3. Closes the one gap of that record. A read(2) of a file opened for direct I/O pins the pages it reads
 * into and fills them past the write protection. When node collects the record while such a read is under
 * way, the page is reported and protected again before its content has arrived, and the arrival is never
 * reported. So after every read into guest memory each of its pages is written to once more, without changing
 * it. The VMM must therefore read by these calls (QEMU: aio=threads); io_uring and libaio go past them.
 *
 *  4. Keeps the VMM from advice that would spoil the record. Discarding a page of a private mapping brings
 * the image's old content back and is not recorded; huge pages make 2 MiB the unit of writing. The first is
 * refused, the second ignored.
 *
 * Threads: one of its own, which owns the socket and is the only writer of the state; the VMM's threads read
 * the address and size through atomics. It blocks every signal. Signals: the interposed calls use plain
 * system calls, atomics and nothing else, so they are safe wherever the originals were. No lock, no
 * allocation, no dlsym. From the moment the placeholder is unmapped a failure can't be undone: it ends the
 * VMM with status 86.
 */
#define _GNU_SOURCE
#include "shim_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Newer than the headers of Debian 12; numbers of the kernel's interface. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define SHIM_FEATURE_WP_UNPOPULATED ((__u64)1 << 13)
#define SHIM_FEATURE_WP_ASYNC ((__u64)1 << 15)

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096u
#define FATAL_STATUS 86
#define MAX_DESCRIPTORS 4 /* received to be closed; more than one is an error */

/* Written once, before the thread starts, by the thread of the VMM that mapped the memory. */
static _Atomic(char*) ram;
static _Atomic(size_t) ram_size;
static atomic_flag claimed = ATOMIC_FLAG_INIT;
static atomic_bool ambiguous; /* any thread of the VMM */
static atomic_bool armed;     /* written by our thread, read by the VMM's threads after a read */

/* Our thread's own. */
static int uffd = -1;
static int bound;
static int tracking_errno;
static uint32_t tracking_step;
static int listener = -1;

static int advise(void* at, size_t size, int advice) {
  return (int)syscall(SYS_madvise, at, size, advice);
}

static void die(const char* why) {
  struct iovec parts[] = {{(void*)"space-shim: ", 12}, {(void*)why, strlen(why)}, {(void*)"\n", 1}};
  if (writev(2, parts, 3) < 0) _exit(FATAL_STATUS);
  _exit(FATAL_STATUS);
}

/* ---- tracking
 * ---------------------------------------------------------------------------------------------------- */

static int tracking_failed(uint32_t step) {
  tracking_errno = errno;
  tracking_step = step;
  return -1;
}

/* Everything about tracking that can fail for want of kernel support or permission, before memory is touched.
 */
static int prepare_tracking(void) {
  if (uffd >= 0) return 0;
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd < 0) return tracking_failed(SPACE_SHIM_STEP_OPEN);
  struct uffdio_api api = {.api = UFFD_API, .features = SHIM_FEATURE_WP_ASYNC | SHIM_FEATURE_WP_UNPOPULATED};
  if (ioctl(fd, UFFDIO_API, &api) != 0) {
    int reason = errno;
    close(fd);
    errno = reason;
    return tracking_failed(SPACE_SHIM_STEP_FEATURES);
  }
  uffd = fd; /* open for the life of the process: closing it would end the protection */
  return 0;
}

static int arm(char* at, size_t size) {
  if (prepare_tracking() != 0) return -1;
  struct uffdio_register area = {.range = {(uintptr_t)at, size}, .mode = UFFDIO_REGISTER_MODE_WP};
  if (ioctl(uffd, UFFDIO_REGISTER, &area) != 0) return tracking_failed(SPACE_SHIM_STEP_REGISTER);
  struct uffdio_writeprotect protect = {.range = {(uintptr_t)at, size}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  /* From here reads touch their pages: one that ends before the protection is complete does so for nothing.
   */
  atomic_store(&armed, 1);
  int failed;
  do {
    failed = ioctl(uffd, UFFDIO_WRITEPROTECT, &protect);
  } while (failed && errno == EAGAIN);
  if (failed) {
    tracking_failed(SPACE_SHIM_STEP_PROTECT);
    atomic_store(&armed, 0);
    struct uffdio_range range = {(uintptr_t)at, size};
    /* Half protected memory without a record would look tracked from outside. */
    if (ioctl(uffd, UFFDIO_UNREGISTER, &range) != 0) die("cannot undo a failed write protection");
    return -1;
  }
  tracking_errno = 0;
  tracking_step = SPACE_SHIM_STEP_NONE;
  return 0;
}

/* ---- requests
 * ---------------------------------------------------------------------------------------------------- */

static void bind_image(int image, struct space_shim_answer* answer) {
  char* at = atomic_load(&ram);
  size_t size = atomic_load(&ram_size);
  struct stat info;
  if (fstat(image, &info) != 0 || !S_ISREG(info.st_mode) || (uint64_t)info.st_size < size) {
    answer->status = SPACE_SHIM_WRONG_SIZE;
    return;
  }
  /* A kernel that can't track is no reason to fail: node then has another way to find what changed. */
  int tracked = prepare_tracking() == 0;
  atomic_store(&armed, 0);
  /* The point of no return. */
  /* SAFETY: exactly the range that the VMM itself mapped from the placeholder, which stays one mapping of the
   * same size and protection; other threads see either the old or the new one. */
  void* now = (void*)syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, image, 0);
  if (now != at) die("cannot map the image");
  bound = 1;
  /* 4 KiB is the unit of tracking and of snapshots. */
  if (advise(at, size, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) die("cannot turn huge pages off");
  /* A guest's memory belongs neither in a core dump nor in a child. */
  if (advise(at, size, MADV_DONTDUMP) != 0 || advise(at, size, MADV_DONTFORK) != 0)
    die("cannot set advice for the image");
  if (tracked) (void)arm(at, size); /* the answer tells */
}

static void answer_request(const struct space_shim_request* request, ssize_t length, const int* fds,
                           int fd_count, int cut, struct space_shim_answer* answer) {
  memset(answer, 0, sizeof *answer);
  answer->magic = SPACE_SHIM_ANSWER_MAGIC;
  answer->version = SPACE_SHIM_VERSION;
  char* at = atomic_load(&ram);
  size_t size = atomic_load(&ram_size);
  answer->status = SPACE_SHIM_BAD_MESSAGE;
  if (!cut && length == (ssize_t)sizeof *request && request->magic == SPACE_SHIM_REQUEST_MAGIC &&
      request->version == SPACE_SHIM_VERSION) {
    answer->kind = request->kind;
    answer->id = request->id;
    int wants_fd = request->kind == SPACE_SHIM_BIND;
    if (request->kind < SPACE_SHIM_BIND || request->kind > SPACE_SHIM_QUERY ||
        (!wants_fd && (fd_count || request->size))) {
      answer->status = SPACE_SHIM_BAD_MESSAGE;
    } else if (request->kind == SPACE_SHIM_QUERY) {
      answer->status = atomic_load(&ambiguous) ? SPACE_SHIM_AMBIGUOUS : SPACE_SHIM_OK;
    } else if (atomic_load(&ambiguous)) {
      answer->status = SPACE_SHIM_AMBIGUOUS;
    } else if (request->kind == SPACE_SHIM_TRACK) {
      answer->status = SPACE_SHIM_OK;
      if (!atomic_load(&armed)) {
        (void)advise(at, size, MADV_NOHUGEPAGE);
        (void)arm(at, size);
      }
    } else if (fd_count != 1) {
      answer->status = SPACE_SHIM_NO_DESCRIPTOR;
    } else if (bound) {
      answer->status = SPACE_SHIM_ALREADY_BOUND;
    } else if (request->size != size) {
      answer->status = SPACE_SHIM_WRONG_SIZE;
    } else {
      answer->status = SPACE_SHIM_OK;
      bind_image(fds[0], answer);
    }
  }
  answer->address = (uintptr_t)at;
  answer->size = size;
  answer->state = (bound ? SPACE_SHIM_STATE_BOUND : 0) | (atomic_load(&armed) ? SPACE_SHIM_STATE_ARMED : 0);
  answer->tracking_errno = tracking_errno;
  answer->step = tracking_step;
}

/* One request and its answer. 0 when the connection is over. */
static int serve_one(int connection) {
  struct space_shim_request request;
  memset(&request, 0, sizeof request);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
  } control;
  struct iovec part = {&request, sizeof request};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length < 0) return errno == EINTR || errno == EAGAIN;
  int fds[MAX_DESCRIPTORS];
  int count = 0;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int got = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < got; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
      if (count < MAX_DESCRIPTORS)
        fds[count++] = fd;
      else
        close(fd);
    }
  }
  if (length == 0 && count == 0) return 0;
  struct space_shim_answer answer;
  answer_request(&request, length, fds, count, message.msg_flags & (MSG_TRUNC | MSG_CTRUNC), &answer);
  for (int i = 0; i < count; i++) close(fds[i]);
  /* A node that went away asks again after its restart; a full buffer means that it does not read answers. */
  return send(connection, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof answer;
}

static void* serve(void* unused) {
  (void)unused;
  int connection = -1;
  for (;;) {
    struct pollfd wait[2] = {{listener, POLLIN, 0}, {connection, POLLIN, 0}};
    if (poll(wait, connection < 0 ? 1 : 2, -1) < 0) {
      if (errno == EINTR) continue;
      die("poll");
    }
    /* What the old connection has sent comes first: it may be the request that its sender believes done. */
    if (connection >= 0 && wait[1].revents && !serve_one(connection)) {
      close(connection);
      connection = -1;
    }
    if (wait[0].revents) {
      int next = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (next >= 0) {
        if (connection >= 0) close(connection);
        connection = next;
      }
    }
  }
  return NULL;
}

/* Listens and starts the thread. The VMM is of no use without it: failure ends it. */
static void start_serving(void) {
  const char* path = getenv(SPACE_SHIM_ENV_SOCKET);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof name.sun_path) die("the socket's path is too long");
  strcpy(name.sun_path, path);
  listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listener < 0) die("socket");
  if (unlink(path) != 0 && errno != ENOENT) die("cannot replace the socket's path");
  if (bind(listener, (struct sockaddr*)&name, sizeof name) != 0) die("cannot bind the socket");
  if (chmod(path, 0600) != 0) die("chmod");
  if (listen(listener, 4) != 0) die("listen");
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256u << 10);
  if (pthread_create(&thread, &attributes, serve, NULL) != 0) die("cannot start a thread");
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- interposed calls
 * -------------------------------------------------------------------------------------------- */

/* Is `fd` the placeholder? By device and inode: a path means something else in a jail. */
static int is_placeholder(int fd) {
  const char* want = getenv(SPACE_SHIM_ENV_RAM);
  if (!want || !getenv(SPACE_SHIM_ENV_SOCKET)) return 0;
  char* end;
  unsigned long long device = strtoull(want, &end, 10);
  if (end == want || *end != ':') die(SPACE_SHIM_ENV_RAM " must be DEVICE:INODE");
  const char* second = end + 1;
  unsigned long long inode = strtoull(second, &end, 10);
  if (end == second || *end) die(SPACE_SHIM_ENV_RAM " must be DEVICE:INODE");
  struct stat info;
  return fstat(fd, &info) == 0 && (unsigned long long)info.st_dev == device &&
         (unsigned long long)info.st_ino == inode;
}

static void* mapped(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  void* at = (void*)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
  if (at == MAP_FAILED || fd < 0 || !(protection & PROT_WRITE) || (flags & MAP_ANONYMOUS)) return at;
  int keep = errno;
  if (is_placeholder(fd)) {
    if (offset != 0 || (flags & MAP_TYPE) != MAP_PRIVATE || size % PAGE != 0) {
      atomic_store(&ambiguous, 1);
    }
    if (atomic_flag_test_and_set(&claimed)) {
      atomic_store(&ambiguous, 1);
    } else {
      atomic_store(&ram_size, size);
      atomic_store(&ram, at);
      start_serving();
    }
  }
  errno = keep;
  return at;
}

EXPORT void* mmap(void* a, size_t n, int p, int f, int fd, off_t o) {
  return mapped(a, n, p, f, fd, o);
}
EXPORT void* mmap64(void* a, size_t n, int p, int f, int fd, off64_t o) {
  return mapped(a, n, p, f, fd, o);
}

EXPORT int madvise(void* at, size_t size, int advice) {
  uintptr_t low = (uintptr_t)atomic_load(&ram);
  uintptr_t high = low + atomic_load(&ram_size);
  if (low && (uintptr_t)at < high && (uintptr_t)at + size > low) {
    if (advice == MADV_HUGEPAGE) return 0;
    if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE) {
      errno = EPERM;
      return -1;
    }
  }
  return advise(at, size, advice);
}

/* A write that changes nothing and that no compiler may leave out (an atomic OR of nothing becomes a plain
 * load). SAFETY: `byte` is inside the guest's memory, mapped writable for the life of the VMM; being atomic
 * it can't lose what a vCPU or another device writes at the same time. */
static inline void write_in_place(volatile unsigned char* byte) {
#if defined(__x86_64__)
  __asm__ volatile("lock orb $0, %0" : "+m"(*byte) : : "memory", "cc");
#else
  unsigned char seen = *byte;
  while (!__atomic_compare_exchange_n(byte, &seen, seen, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
#endif
}

/* Writes to every page of [at, at+size) that is guest memory, changing nothing. */
static void touch(const void* at, size_t size) {
  if (!atomic_load_explicit(&armed, memory_order_acquire)) return;
  uintptr_t low = (uintptr_t)atomic_load_explicit(&ram, memory_order_relaxed);
  uintptr_t high = low + atomic_load_explicit(&ram_size, memory_order_relaxed);
  uintptr_t from = (uintptr_t)at, to = from + size;
  if (from < low) from = low;
  if (to > high) to = high;
  for (uintptr_t page = from & ~(uintptr_t)(PAGE - 1); page < to; page += PAGE) {
    write_in_place((volatile unsigned char*)page);
  }
}

/* Also after an error: part of the bytes may have arrived. */
static ssize_t after_read(const struct iovec* parts, int count, ssize_t result) {
  int keep = errno;
  for (int i = 0; i < count; i++) touch(parts[i].iov_base, parts[i].iov_len);
  errno = keep;
  return result;
}
static ssize_t after_flat_read(void* at, size_t size, ssize_t result) {
  struct iovec part = {at, size};
  return after_read(&part, 1, result);
}
/* A bad count or a bad array fails in the kernel; nothing may be read from the array then. */
static int sane(int count, ssize_t result) {
  return result == -1 && (errno == EINVAL || errno == EFAULT) ? 0 : count;
}

EXPORT ssize_t read(int fd, void* to, size_t n) {
  return after_flat_read(to, n, syscall(SYS_read, fd, to, n));
}
EXPORT ssize_t pread(int fd, void* to, size_t n, off_t at) {
  return after_flat_read(to, n, syscall(SYS_pread64, fd, to, n, at));
}
EXPORT ssize_t pread64(int fd, void* to, size_t n, off64_t at) {
  return after_flat_read(to, n, syscall(SYS_pread64, fd, to, n, at));
}
/* What fortified programs call instead. */
EXPORT ssize_t __read_chk(int fd, void* to, size_t n, size_t room) {
  if (n > room) die("read: buffer overflow");
  return read(fd, to, n);
}
EXPORT ssize_t __pread_chk(int fd, void* to, size_t n, off_t at, size_t room) {
  if (n > room) die("pread: buffer overflow");
  return pread(fd, to, n, at);
}
EXPORT ssize_t __pread64_chk(int fd, void* to, size_t n, off64_t at, size_t room) {
  if (n > room) die("pread64: buffer overflow");
  return pread64(fd, to, n, at);
}
EXPORT ssize_t readv(int fd, const struct iovec* to, int n) {
  ssize_t got = syscall(SYS_readv, fd, to, n);
  return after_read(to, sane(n, got), got);
}
/* The kernel takes the offset in two halves; on 64-bit machines the low one holds all of it. */
EXPORT ssize_t preadv(int fd, const struct iovec* to, int n, off_t at) {
  ssize_t got = syscall(SYS_preadv, fd, to, n, at, 0);
  return after_read(to, sane(n, got), got);
}
EXPORT ssize_t preadv64(int fd, const struct iovec* to, int n, off64_t at) {
  ssize_t got = syscall(SYS_preadv, fd, to, n, at, 0);
  return after_read(to, sane(n, got), got);
}
