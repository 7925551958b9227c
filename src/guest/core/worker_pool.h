// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for what may block: file system calls (which may hang for ever on a file system that something in
// the guest serves) and starting a process. The loop itself never touches a path.
//
// Threads are made when work waits and none is idle, up to `max_threads`; the first two stay. Their stacks
// are small (kStackBytes), since the daemon's memory is locked. Resource type; submit() is for the loop's
// thread.

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "guest/core/loop.h"

namespace space::guest {

class WorkerPool {
 public:
  using Job = std::function<void()>;
  static constexpr std::size_t kStackBytes = 128u << 10;

  WorkerPool(Loop& loop, std::size_t max_threads) : loop_(loop), max_threads_(max_threads) {}
  // Waits for jobs that run; drops those that wait.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `work` on a thread, then `done` on the loop. Both are destroyed on the loop.
  void submit(Job work, Job done);
  // Makes `count` threads in advance.
  void warm(std::size_t count);

 private:
  struct Item {
    Job work;
    Job done;
  };
  static void* enter(void* self);
  void run();
  void add_thread();

  Loop& loop_;
  std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> waiting_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<pthread_t> threads_;
};

}  // namespace space::guest
