/* SPDX-License-Identifier: Apache-2.0 */
/* What node and the library preloaded into a VMM say to each other. C and C++.
 *
 * A SOCK_SEQPACKET Unix socket that the library listens on; every message is one packet of fixed size in the
 * byte order of the machine, since both ends are on it. One request, one answer, any number per connection. A
 * new connection replaces an idle older one, so that a restarted node can take over. The answer comes from a
 * process that a guest may have taken over: node checks every field (see shim_client.h). */
#ifndef SPACE_NODE_SHIM_PROTOCOL_H
#define SPACE_NODE_SHIM_PROTOCOL_H

#include <stdint.h>

/* Environment of the VMM. SOCKET is the path to listen on, as the VMM sees it. RAM names the placeholder file
 * that the VMM maps as its guest's memory: "DEVICE:INODE" of stat(2), both decimal. Without either the
 * library does nothing. */
#define SPACE_SHIM_ENV_SOCKET "SPACE_SHIM_SOCKET"
#define SPACE_SHIM_ENV_RAM "SPACE_SHIM_RAM"

#define SPACE_SHIM_REQUEST_MAGIC 0x71526853u /* "ShRq" */
#define SPACE_SHIM_ANSWER_MAGIC 0x6e416853u  /* "ShAn" */
#define SPACE_SHIM_VERSION 1u

enum space_shim_kind {
  /* Map the attached descriptor (exactly one; a regular file of at least `size` bytes) privately in place of
   * the placeholder and arm tracking. Only while no vCPU runs and no device moves data. Once per process. */
  SPACE_SHIM_BIND = 1,
  /* Arm tracking on the mapping as it is. Armed already: answers OK and changes nothing, above all not the
   * record of what was written. */
  SPACE_SHIM_TRACK = 2,
  /* What is there? Changes nothing. */
  SPACE_SHIM_QUERY = 3,
};

enum space_shim_status {
  SPACE_SHIM_OK =
      0, /* done; whether tracking is armed says `state`, why not say `tracking_errno` and `step` */
  SPACE_SHIM_BAD_MESSAGE = 1,   /* wrong length, magic, version or kind, or a descriptor where none belongs */
  SPACE_SHIM_NO_DESCRIPTOR = 2, /* BIND without exactly one descriptor */
  SPACE_SHIM_WRONG_SIZE =
      3, /* `size` is not that of the VMM's mapping, or the file is shorter or no regular file */
  SPACE_SHIM_ALREADY_BOUND = 4, /* BIND a second time */
  SPACE_SHIM_AMBIGUOUS = 5,     /* the VMM mapped the placeholder more than once: nothing was touched */
};

enum space_shim_state {
  SPACE_SHIM_STATE_BOUND = 1, /* an image is mapped */
  SPACE_SHIM_STATE_ARMED = 2, /* writes are recorded */
};

enum space_shim_step { /* where arming stopped */
                       SPACE_SHIM_STEP_NONE = 0,
                       SPACE_SHIM_STEP_OPEN = 1, /* userfaultfd(2) */
                       SPACE_SHIM_STEP_FEATURES =
                           2, /* UFFDIO_API: the kernel lacks WP_ASYNC or WP_UNPOPULATED */
                       SPACE_SHIM_STEP_REGISTER = 3,
                       SPACE_SHIM_STEP_PROTECT = 4,
};

struct space_shim_request {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;
  uint64_t id;   /* repeated in the answer */
  uint64_t size; /* bytes of guest memory; BIND only, else 0 */
};

struct space_shim_answer {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;
  uint64_t id;
  uint64_t address; /* of the mapping, in the VMM's address space */
  uint64_t size;
  uint32_t status;
  uint32_t state;
  int32_t tracking_errno; /* 0 when tracking is armed or was never asked for */
  uint32_t step;
};

#endif
