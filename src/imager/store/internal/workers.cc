// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/workers.h"

#include <algorithm>
#include <optional>

namespace space::imager::store {

struct Workers::Job {
  std::size_t count = 0;
  const std::function<Result<void>(std::size_t)>* work =
      nullptr;  // valid until `running` and `next` say all is done
  std::mutex mutex;
  std::condition_variable done;
  std::size_t next = 0;
  std::size_t running = 0;
  std::optional<Error> error;
};

Workers::Workers(unsigned threads) {
  for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::help(Job& job) {
  std::unique_lock lock(job.mutex);
  while (job.next < job.count && !job.error) {
    std::size_t index = job.next++;
    ++job.running;
    lock.unlock();
    auto result = (*job.work)(index);
    lock.lock();
    if (!result.ok() && !job.error) job.error = std::move(result).error();
    --job.running;
  }
  if (job.running == 0) job.done.notify_all();
}

Result<void> Workers::for_each(std::size_t count, const std::function<Result<void>(std::size_t)>& work) {
  if (count <= 1 || threads_.empty()) {
    for (std::size_t i = 0; i < count; ++i) SPACE_CHECK_OK(work(i));
    return {};
  }
  auto job = std::make_shared<Job>();
  job->count = count;
  job->work = &work;
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  ready_.notify_all();
  help(*job);
  {
    std::lock_guard lock(mutex_);
    std::erase(jobs_, job);
  }
  std::unique_lock lock(job->mutex);
  job->done.wait(lock, [&] { return job->running == 0; });
  if (job->error) return std::move(*job->error);
  return {};
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::shared_ptr<Job> job = jobs_.front();
    lock.unlock();
    help(*job);
    lock.lock();
    std::erase(jobs_, job);  // nothing is left to start
  }
}

}  // namespace space::imager::store
