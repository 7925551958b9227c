// SPDX-License-Identifier: Apache-2.0
// The peer of `space-bench exec`: what spawning a program and waiting for it costs in a guest when nothing
// but a bare channel lies between. As /init of the same initramfs (templates/mkinitramfs --init), it loads
// the same modules, enters the same root disk and then, for every line that arrives on the port space.0, runs
// /bin/true by vfork and execve, waits for it and answers "done STATUS". The first line it sends is "up". The
// line "echo" is answered at once, without running anything. A machine without a disk is served too; then it
// runs itself, which ends at once.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fatal(const char* what) {
  fprintf(stderr, "bare-exec: %s: %s\n", what, strerror(errno));
  reboot(RB_AUTOBOOT);
  _exit(1);
}

static void pause_briefly(void) {
  struct timespec time = {0, 500000};
  nanosleep(&time, NULL);
}

// Each line of /modules/order is a file name and, after a blank, a condition; those with one aren't needed
// here.
static void load_modules(void) {
  FILE* order = fopen("/modules/order", "re");
  char line[256], path[300];
  if (order == NULL) fatal("/modules/order");
  while (fgets(line, sizeof line, order) != NULL) {
    if (strchr(line, ' ') != NULL) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(path, sizeof path, "/modules/%s", line);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST)) perror(path);
    close(file);
  }
  fclose(order);
}

static int has_disk(void) {
  char path[300], type[16];
  int found = 0;
  DIR* devices = opendir("/sys/bus/virtio/devices");
  if (devices == NULL) return 0;
  for (struct dirent* entry; (entry = readdir(devices)) != NULL;) {
    snprintf(path, sizeof path, "/sys/bus/virtio/devices/%s/device", entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    found |= read(file, type, sizeof type) >= 6 && strncmp(type, "0x0002", 6) == 0;
    close(file);
  }
  closedir(devices);
  return found;
}

static void enter_root(void) {
  while (access("/dev/vda", F_OK) != 0) pause_briefly();
  if (mount("/dev/vda", "/root-disk", "ext4", 0, NULL) != 0) fatal("mount /dev/vda");
  mkdir("/root-disk/dev", 0755);
  mkdir("/root-disk/sys", 0755);
  if (mount("/dev", "/root-disk/dev", NULL, MS_MOVE, NULL) != 0 ||
      mount("/sys", "/root-disk/sys", NULL, MS_MOVE, NULL) != 0 || chdir("/root-disk") != 0 ||
      mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0) {
    fatal("enter the root disk");
  }
}

static int open_port(void) {
  char path[300], name[32];
  for (;; pause_briefly()) {
    DIR* ports = opendir("/sys/class/virtio-ports");
    if (ports == NULL) continue;
    for (struct dirent* entry; (entry = readdir(ports)) != NULL;) {
      snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
      int file = open(path, O_RDONLY | O_CLOEXEC);
      ssize_t got = file < 0 ? -1 : read(file, name, sizeof name);
      close(file);
      if (got < 7 || strncmp(name, "space.0", 7) != 0) continue;
      snprintf(path, sizeof path, "/dev/%s", entry->d_name);
      int port = open(path, O_RDWR | O_CLOEXEC);
      if (port < 0) continue;
      closedir(ports);
      return port;
    }
    closedir(ports);
  }
}

static int run_program(const char* program) {
  char* const arguments[] = {(char*)program, (char*)"true", NULL};
  static char* const environment[] = {NULL};
  pid_t pid = vfork();
  if (pid == 0) {
    execve(program, arguments, environment);
    _exit(127);
  }
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return pid < 0 ? -1 : WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "true") == 0) return 0;
  if (mount("sysfs", "/sys", "sysfs", 0, NULL) != 0 || mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) != 0)
    fatal("mount");
  load_modules();
  const char* program = has_disk() ? "/bin/true" : "/init";
  if (program[1] == 'b') enter_root();
  int port = open_port();
  char line[4096], answer[32];
  size_t filled = 0;
  if (write(port, "up\n", 3) != 3) fatal("write");
  for (;;) {
    ssize_t got = read(port, line + filled, sizeof line - filled);
    if (got <= 0) {  // nobody is connected at the moment
      pause_briefly();
      continue;
    }
    filled += (size_t)got;
    for (char* end; (end = memchr(line, '\n', filled)) != NULL;) {
      int echo = strncmp(line, "echo\n", 5) == 0;
      int length = snprintf(answer, sizeof answer, "done %d\n", echo ? 0 : run_program(program));
      if (write(port, answer, (size_t)length) != length) pause_briefly();
      filled -= (size_t)(end + 1 - line);
      memmove(line, end + 1, filled);
    }
    if (filled == sizeof line) filled = 0;  // no line is that long
  }
}
