/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that can run a command in a guest: an init that opens the virtio port and, for each line, answers a line.
 * "exec" spawns this program as a process that ends at once, and waits for it; "echo" answers without. What
 * `space exec -- true` costs on top of this is what the platform adds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void load_modules(void) {
  FILE* order = fopen("/modules/order", "re");
  char name[128], path[160];
  while (order != NULL && fgets(name, sizeof name, order) != NULL) {
    name[strcspn(name, "\n")] = 0;
    snprintf(path, sizeof path, "/modules/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      syscall(SYS_finit_module, fd, "", 0);
      close(fd);
    }
  }
}

static int run_true(void) {
  char* argv[] = {(char*)"/init", (char*)"true", NULL};
  char* env[] = {NULL};
  pid_t pid;
  int status = -1;
  if (posix_spawn(&pid, "/init", NULL, NULL, argv, env) != 0) return -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "true") == 0) return 0;
  mkdir("/dev", 0755);
  mkdir("/sys", 0755);
  mount("dev", "/dev", "devtmpfs", 0, NULL);
  mount("sys", "/sys", "sysfs", 0, NULL);
  load_modules();
  int port = -1;
  while (port < 0) { /* the device appears some time after its driver */
    port = open("/dev/vport0p1", O_RDWR | O_CLOEXEC);
    if (port < 0) usleep(1000);
  }
  if (write(port, "up\n", 3) != 3) return 1;
  char line[256];
  size_t have = 0;
  for (;;) {
    ssize_t got = read(port, line + have, sizeof line - have);
    if (got <= 0) {
      usleep(1000); /* nobody is connected */
      continue;
    }
    have += (size_t)got;
    char* end;
    while ((end = memchr(line, '\n', have)) != NULL) {
      char answer[64];
      int status = strncmp(line, "exec\n", 5) == 0 ? run_true() : 0;
      int size = snprintf(answer, sizeof answer, "done %d\n", status);
      if (write(port, answer, (size_t)size) != size) return 1;
      have -= (size_t)(end + 1 - line);
      memmove(line, end + 1, have);
    }
    if (have == sizeof line) have = 0;
  }
}
