// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 35
#include "imager/files/request_guard.h"

#include <fuse3/fuse_lowlevel.h>

#include <cerrno>

namespace space::imager::files {

RequestGuard::RequestGuard(std::chrono::milliseconds deadline, Late late)
    : deadline_(deadline), late_(std::move(late)), watchdog_([this] { watch(); }) {}

RequestGuard::~RequestGuard() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  watchdog_.join();
}

std::unique_ptr<RequestGuard::Reply> RequestGuard::begin(fuse_req* request, std::uint64_t inode) {
  std::lock_guard lock(mutex_);
  auto entry =
      pending_.insert(pending_.end(), {request, inode, std::chrono::steady_clock::now() + deadline_});
  if (pending_.size() == 1) changed_.notify_all();
  return std::make_unique<Reply>(*this, entry);
}

void RequestGuard::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (pending_.empty()) {
      changed_.wait(lock);
      continue;
    }
    if (std::chrono::steady_clock::now() < pending_.front().deadline) {
      changed_.wait_until(lock, pending_.front().deadline);
      continue;
    }
    auto entry = pending_.begin();
    fuse_req* request = entry->request;
    std::uint64_t inode = entry->inode;
    entry->request = nullptr;
    answered_.splice(answered_.end(), pending_, entry);  // iterators of the worker stay valid
    lock.unlock();
    fuse_reply_err(request, EIO);
    late_(inode);
    lock.lock();
  }
}

fuse_req* RequestGuard::Reply::take() {
  std::lock_guard lock(guard_.mutex_);
  fuse_req* request = entry_->request;
  if (request != nullptr) {
    guard_.pending_.erase(entry_);
  } else {
    guard_.answered_.erase(entry_);
  }
  return request;
}

void RequestGuard::Reply::fail(int error_number) {
  if (auto* request = take()) fuse_reply_err(request, error_number);
}
void RequestGuard::Reply::data(ByteView bytes) {
  if (auto* request = take())
    fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()),
                   bytes.size());  // SAFETY: bytes alias
}
void RequestGuard::Reply::written(std::size_t bytes) {
  if (auto* request = take()) fuse_reply_write(request, bytes);
}

}  // namespace space::imager::files
