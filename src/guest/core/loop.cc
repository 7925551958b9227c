// SPDX-License-Identifier: Apache-2.0
#include "guest/core/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/check.h"

namespace space::guest {

Result<std::unique_ptr<Loop>> Loop::create() {
  os::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error(errno, "guest.internal", "create epoll");
  os::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_error(errno, "guest.internal", "create eventfd");
  std::unique_ptr<Loop> loop(new Loop(std::move(epoll), std::move(wake)));
  int fd = loop->wake_.get();
  Loop* self = loop.get();  // the watch ends with the loop that owns it
  loop->watch(fd, EPOLLIN, [self, fd](std::uint32_t) {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t got = ::read(fd, &count, sizeof count);
    self->run_posted();
  });
  return loop;
}

void Loop::watch(int fd, std::uint32_t events, FdCallback callback) {
  auto serial = next_serial_++;
  bool fresh = watched_.find(fd) == watched_.end();
  watched_[fd] = std::make_shared<Watched>(Watched{serial, std::move(callback)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = (std::uint64_t{serial} << 32) | static_cast<std::uint32_t>(fd);
  // Fails only for a descriptor that isn't pollable or out of kernel memory; the first is a mistake of ours.
  int done = ::epoll_ctl(epoll_.get(), fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  if (done != 0 && errno == ENOENT) done = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  SPACE_CHECK(done == 0);
}

void Loop::unwatch(int fd) {
  if (watched_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::after(std::chrono::milliseconds delay, Callback callback) {
  // Bounds the sum, so that a timeout of centuries is only very late.
  delay = std::min<std::chrono::milliseconds>(delay, std::chrono::hours(24 * 365 * 50));
  TimerId id = next_timer_++;
  Instant when = std::chrono::steady_clock::now() + delay;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  return id;
}

void Loop::cancel(TimerId timer) {
  auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase(std::pair(it->second, timer));
  timer_times_.erase(it);
}

void Loop::post(Callback callback) {
  {
    std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(callback));
  }
  std::uint64_t one = 1;
  [[maybe_unused]] ssize_t put = ::write(wake_.get(), &one, sizeof one);  // a full counter is awake already
}

void Loop::run_posted() {
  std::vector<Callback> ready;
  {
    std::lock_guard lock(posted_mutex_);
    ready.swap(posted_);
  }
  for (auto& callback : ready) callback();
}

int Loop::wait_ms() const {
  if (!deferred_.empty()) return 0;
  if (timers_.empty()) return -1;
  auto left = timers_.begin()->first.first - std::chrono::steady_clock::now();
  if (left.count() <= 0) return 0;
  auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, 1 << 30));
}

void Loop::run_timers() {
  Instant now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

void Loop::run_deferred() {
  std::vector<Callback> ready;
  ready.swap(deferred_);  // what these defer runs in the next round
  for (auto& callback : ready) callback();
}

void Loop::run() {
  running_ = true;
  std::array<epoll_event, 64> events{};
  while (running_) {
    int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      auto serial = static_cast<std::uint32_t>(events[static_cast<std::size_t>(i)].data.u64 >> 32);
      auto fd = static_cast<int>(events[static_cast<std::size_t>(i)].data.u64 & 0xffffffffU);
      auto it = watched_.find(fd);
      if (it == watched_.end() || it->second->serial != serial)
        continue;  // unwatched or replaced in this round
      auto keep = it->second;
      keep->callback(events[static_cast<std::size_t>(i)].events);
    }
    run_timers();
    run_deferred();
  }
}

}  // namespace space::guest
