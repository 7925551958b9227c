// SPDX-License-Identifier: Apache-2.0
#include "guest/file/watcher.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "guest/file/path.h"

namespace space::guest {
namespace {

constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                  IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW | IN_EXCL_UNLINK;

guestapi::WatchEventT make_event(guestapi::WatchKind kind, std::string path, bool directory) {
  guestapi::WatchEventT event;
  event.kind = kind;
  event.path = std::move(path);
  event.directory = directory;
  return event;
}

std::string below(const std::string& directory, std::string_view name) {
  return (directory == "/" ? "" : directory) + "/" + std::string(name);
}

}  // namespace

Result<void> Watcher::open(const std::string& path, bool recursive) {
  top_ = without_trailing_slashes(path);
  recursive_ = recursive;
  inotify_ = os::Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_) return file_error(errno, "watch", path);
  struct stat status{};
  if (::stat(top_.c_str(), &status) != 0) return file_error(errno, "watch", path);
  directory_ = S_ISDIR(status.st_mode);
  int number = ::inotify_add_watch(inotify_.get(), top_.c_str(),
                                   kEvents & ~static_cast<std::uint32_t>(IN_DONT_FOLLOW));
  if (number < 0) return file_error(errno, "watch", path);
  paths_[number] = top_;
  if (recursive_ && directory_) {
    add_below(top_, nullptr);
    if (lost_some_) {
      return make_error(Code::kResourceExhausted, "guest.too_many_watches",
                        "there are too many directories to watch below " + top_ + "; watch a part of them");
    }
  }
  return {};
}

bool Watcher::add(const std::string& directory) {
  if (paths_.size() >= kMaxDirectories) return false;
  int number = ::inotify_add_watch(inotify_.get(), directory.c_str(), kEvents | IN_ONLYDIR);
  if (number < 0) return errno != ENOSPC && errno != ENOMEM;  // gone again: nothing is lost
  paths_[number] = directory;
  return true;
}

void Watcher::add_below(const std::string& directory, std::vector<guestapi::WatchEventT>* created) {
  std::vector<std::string> waiting = {directory};
  while (!waiting.empty() && !lost_some_) {
    std::string here = std::move(waiting.back());
    waiting.pop_back();
    std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(here.c_str()), &::closedir);
    if (!dir) continue;
    while (dirent* entry = ::readdir(dir.get())) {
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      std::string path = below(here, name);
      struct stat status{};
      bool is_directory =
          entry->d_type == DT_DIR ||
          (entry->d_type == DT_UNKNOWN && ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode));
      if (created != nullptr && created->size() < kMaxDirectories) {
        created->push_back(make_event(guestapi::WatchKind::Created, path, is_directory));
      }
      if (!is_directory) continue;
      if (!add(path)) {
        lost_some_ = true;
        break;
      }
      waiting.push_back(std::move(path));
    }
  }
}

void Watcher::forget_below(const std::string& directory) {
  std::string prefix = directory + "/";
  std::erase_if(paths_, [&](const auto& watched) {
    bool inside = watched.second == directory || watched.second.compare(0, prefix.size(), prefix) == 0;
    if (inside) ::inotify_rm_watch(inotify_.get(), watched.first);
    return inside;
  });
}

void Watcher::translate(const inotify_event& event, std::vector<guestapi::WatchEventT>& out) {
  using Kind = guestapi::WatchKind;
  if ((event.mask & IN_Q_OVERFLOW) != 0) return out.push_back(make_event(Kind::Overflow, top_, true));
  auto it = paths_.find(event.wd);
  if (it == paths_.end()) return;  // of a directory that has just been forgotten
  if ((event.mask & IN_IGNORED) != 0) {
    paths_.erase(it);
    return;
  }
  bool top = it->second == top_;
  if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0) {
    // Other directories are reported by their parents.
    if (top)
      out.push_back(
          make_event((event.mask & IN_DELETE_SELF) != 0 ? Kind::Removed : Kind::MovedFrom, top_, directory_));
    return;
  }
  if (event.len == 0 && !top) return;  // of the directory itself: its parent reports it
  std::string path = event.len != 0 ? below(it->second, event.name) : it->second;
  bool directory = (event.mask & IN_ISDIR) != 0;
  static constexpr std::pair<std::uint32_t, Kind> kKinds[] = {
      {IN_CREATE, Kind::Created},       {IN_MODIFY, Kind::Modified},  {IN_DELETE, Kind::Removed},
      {IN_MOVED_FROM, Kind::MovedFrom}, {IN_MOVED_TO, Kind::MovedTo}, {IN_ATTRIB, Kind::Attributes}};
  for (auto [bit, kind] : kKinds) {
    if ((event.mask & bit) != 0) out.push_back(make_event(kind, path, directory));
  }
  if (!recursive_ || !directory) return;
  if ((event.mask & IN_MOVED_FROM) != 0) forget_below(path);
  if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    if (!add(path)) lost_some_ = true;
    add_below(path, &out);
    if (std::exchange(lost_some_, false)) out.push_back(make_event(Kind::Overflow, path, true));
  }
}

std::vector<guestapi::WatchEventT> Watcher::read() {
  std::vector<guestapi::WatchEventT> out;
  alignas(inotify_event) char buffer[16 << 10];
  ssize_t got = ::read(inotify_.get(), buffer, sizeof buffer);
  for (ssize_t at = 0; at < got;) {
    const auto* event =
        reinterpret_cast<const inotify_event*>(buffer + at);  // SAFETY: the kernel aligns events
    translate(*event, out);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  return out;
}

}  // namespace space::guest
