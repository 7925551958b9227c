// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers every FUSE request once, in time: by the thread that works on it, or with EIO by a watchdog when it
// takes too long. A late answer is dropped. Thread-safe; own thread.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "lib/base/bytes.h"

struct fuse_req;

namespace space::imager::files {

class RequestGuard {
  struct Pending;

 public:
  using Late = std::function<void(std::uint64_t inode)>;
  // `late` is called on the watchdog's thread after a request was answered with EIO.
  RequestGuard(std::chrono::milliseconds deadline, Late late);
  ~RequestGuard();
  RequestGuard(const RequestGuard&) = delete;
  RequestGuard& operator=(const RequestGuard&) = delete;

  // The right to answer. Must be used exactly once, unless the watchdog was faster.
  class Reply {
   public:
    Reply(RequestGuard& guard, std::list<Pending>::iterator entry) : guard_(guard), entry_(entry) {}
    void fail(int error_number);  // 0 is success without data
    void data(ByteView bytes);
    void written(std::size_t bytes);

   private:
    fuse_req* take();  // null when the watchdog has answered
    RequestGuard& guard_;
    std::list<Pending>::iterator entry_;
  };
  std::unique_ptr<Reply> begin(fuse_req* request, std::uint64_t inode);

 private:
  struct Pending {
    fuse_req* request;
    std::uint64_t inode;
    std::chrono::steady_clock::time_point deadline;
  };
  void watch();

  std::chrono::milliseconds deadline_;
  Late late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Pending> pending_;   // in order of their deadlines
  std::list<Pending> answered_;  // by the watchdog, still being worked on
  bool stopping_ = false;
  std::thread watchdog_;
};

}  // namespace space::imager::files
