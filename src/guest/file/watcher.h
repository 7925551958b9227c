// SPDX-License-Identifier: Apache-2.0
#pragma once
// Watches a file or a directory, with everything below it when asked, by inotify.
//
// Setting watches walks directories and may block: open() and follow() are for a pool thread, read() too. The
// owner never runs two of them at once. Links below the top aren't followed. Resource type.

#include <sys/inotify.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/guest_generated.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest {

class Watcher {
 public:
  static constexpr std::size_t kMaxDirectories = 8192;

  // Errors: guest.too_many_watches, those of file_error().
  Result<void> open(const std::string& path, bool recursive);
  [[nodiscard]] int fd() const { return inotify_.get(); }
  // Events that are there now, at most one buffer of them; empty when none are. Paths begin with the watched
  // one. In a directory that appears, what is already in it is reported as created.
  std::vector<guestapi::WatchEventT> read();

 private:
  // A directory whose entries are being watched, by its full path.
  bool add(const std::string& directory);
  void add_below(const std::string& directory, std::vector<guestapi::WatchEventT>* created);
  void forget_below(const std::string& directory);
  void translate(const inotify_event& event, std::vector<guestapi::WatchEventT>& out);

  os::Fd inotify_;
  std::string top_;
  bool recursive_ = false;
  bool directory_ = false;
  bool lost_some_ = false;  // a directory couldn't be watched
  std::unordered_map<int, std::string> paths_;
};

}  // namespace space::guest
