// SPDX-License-Identifier: Apache-2.0
#include "guest/core/worker_pool.h"

#include <sched.h>

#include <memory>

namespace space::guest {

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  for (pthread_t thread : threads_) pthread_join(thread, nullptr);
}

void WorkerPool::submit(Job work, Job done) {
  bool grow = false;
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(work), std::move(done)});
    grow = waiting_.size() > idle_ && threads_.size() < max_threads_;
  }
  if (grow) add_thread();
  wake_.notify_one();
}

void WorkerPool::warm(std::size_t count) {
  while (threads_.size() < count && threads_.size() < max_threads_) add_thread();
}

void WorkerPool::add_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  // A failure (no memory, no process numbers left) leaves the work to the threads that there are.
  if (pthread_create(&thread, &attributes, &WorkerPool::enter, this) == 0) threads_.push_back(thread);
  pthread_attr_destroy(&attributes);
}

void* WorkerPool::enter(void* self) {
  // A batch thread doesn't preempt what runs when it wakes: a program that has just been started gets on (and
  // a short one is done) before its start is reported, which saves two switches of address space.
  sched_param priority{};
  ::sched_setscheduler(0, SCHED_BATCH, &priority);
  static_cast<WorkerPool*>(self)->run();
  return nullptr;
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (stopping_) return;
    // On the heap, so that the loop destroys it: what a job holds may belong to the loop.
    auto item = std::make_shared<Item>(std::move(waiting_.front()));
    waiting_.pop_front();
    lock.unlock();
    item->work();
    loop_.post([item = std::move(item)] { item->done(); });
    lock.lock();
  }
}

}  // namespace space::guest
