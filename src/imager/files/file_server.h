// SPDX-License-Identifier: Apache-2.0
#pragma once
// The FUSE files that VMMs use: memory images, mapped privately and shared by all forks through the page
// cache, and one disk per slot.
//
// The server gets a descriptor of /dev/fuse that somebody with the right to mount has mounted already, and
// needs no privilege. It stands in the fault path of guests, so it fails closed:
//   * a read that can't be served from verified data is EIO, never zeros;
//   * every request has a deadline and ends in EIO, since a VMM that waits for an unanswered read can't be
//   killed;
//   * each EIO is reported through `on_error`, so that the VMM is ended (a device's DMA into a bad page would
//   be only an
//     I/O error to its guest).
//
// Names: "m-<id>" for memory images (read-only, cached by the kernel for as long as they are served),
// "d-<id>" for disks (direct I/O; zeros until bound; size as bound). Ids are ours.
//
// Resource type; own threads. All methods are thread-safe. Posture: hostile-guest (offsets and lengths come
// from VMMs).

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "imager/files/disk.h"
#include "imager/store/store.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::imager::files {

struct FileServerOptions {
  unsigned max_threads = 8;
  std::chrono::milliseconds request_deadline{5000};
  // One frame: more read-ahead fetched twenty times what an idle guest touches.
  unsigned max_readahead_bytes = 64u << 10;
};

struct FileError {
  std::string name;  // of the file
  Error why;
};

class FileServer {
 public:
  // Serves on `fuse` (owned). `on_error` is called from the server's threads. Errors: imager.fuse.
  static Result<std::unique_ptr<FileServer>> start(os::Fd fuse,
                                                   std::function<void(const FileError&)> on_error,
                                                   FileServerOptions options = {});
  virtual ~FileServer() = default;

  // Makes "m-<id>" appear. Errors: imager.file_exists.
  virtual Result<void> add_image(const std::string& id, std::shared_ptr<store::OpenSnapshot> snapshot) = 0;
  // Makes "d-<id>" appear, `bytes` long and full of zeros until bind_disk().
  virtual Result<void> add_disk(const std::string& id, std::uint64_t bytes) = 0;
  // The slot's contents; its size may change. Errors: imager.no_such_file.
  virtual Result<void> bind_disk(const std::string& id, std::shared_ptr<Disk> disk) = 0;
  // The name goes at once; who has it open gets EIO from now on.
  virtual void remove(const std::string& name) = 0;
  // Bytes read through the images so far, for measuring.
  [[nodiscard]] virtual std::uint64_t image_bytes_read() const = 0;
};

}  // namespace space::imager::files
