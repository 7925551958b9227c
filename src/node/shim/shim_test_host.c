/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for a VMM in tests: maps a placeholder as its guest's memory and obeys lines on standard input,
 * each answered by one line. shim_test_host PLACEHOLDER SIZE_BYTES write PAGE BYTE | read PAGE | pread PATH
 * PAGE COUNT | direct PATH PAGE COUNT | discard PAGE COUNT | map_again; anything else ends it `pread` and
 * `direct` fill COUNT pages from the start of PATH, the latter opened with O_DIRECT. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  size_t size = strtoull(argv[2], NULL, 10);
  int fd = open(argv[1], O_RDWR | O_CLOEXEC);
  unsigned char* ram = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (fd < 0 || ram == MAP_FAILED) return 3;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("ready %p\n", (void*)ram);
  char line[512], path[400];
  unsigned long page, count, value;
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "write %lu %lu", &page, &value) == 2) {
      memset(ram + page * 4096, (int)value, 4096);
      puts("ok");
    } else if (sscanf(line, "read %lu", &page) == 1) {
      printf("%d\n", ram[page * 4096]);
    } else if (sscanf(line, "pread %399s %lu %lu", path, &page, &count) == 3 ||
               sscanf(line, "direct %399s %lu %lu", path, &page, &count) == 3) {
      int from = open(path, O_RDONLY | O_CLOEXEC | (line[0] == 'd' ? O_DIRECT : 0));
      struct iovec part = {ram + page * 4096, count * 4096};
      ssize_t got = preadv(from, &part, 1, 0);
      printf("%zd\n", got);
      close(from);
    } else if (sscanf(line, "discard %lu %lu", &page, &count) == 2) {
      puts(madvise(ram + page * 4096, count * 4096, MADV_DONTNEED) == 0 ? "ok" : "refused");
    } else if (strncmp(line, "map_again", 9) == 0) {
      void* second = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
      puts(second == MAP_FAILED ? "failed" : "ok");
    } else {
      break;
    }
  }
  return 0;
}
