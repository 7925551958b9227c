// SPDX-License-Identifier: Apache-2.0
#pragma once
// A few threads that share out the work of a call, the calling thread among them. Resource; thread-safe.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/result.h"

namespace space::imager::store {

class Workers {
 public:
  // `threads` in all, so one less is started.
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls work(0) .. work(count - 1), in any order and side by side; returns when all that started have
  // returned, with the error of one of them if any failed (then not all were started). May be called from
  // several threads at once, but not from inside `work`.
  Result<void> for_each(std::size_t count, const std::function<Result<void>(std::size_t)>& work);
  [[nodiscard]] unsigned threads() const { return static_cast<unsigned>(threads_.size()) + 1; }

 private:
  struct Job;
  void serve();
  static void help(Job& job);

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Job>> jobs_;  // shared: a helper may still hold one that its caller has left
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace space::imager::store
