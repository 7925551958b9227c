// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/progress.h"

#include <unistd.h>

#include "cli/printable.h"
#include "cli/table.h"
#include "lib/os/file.h"

namespace space::cli::copy {
namespace {
constexpr std::chrono::milliseconds kQuiet{500};  // shorter copies draw nothing
constexpr std::chrono::milliseconds kEvery{100};

void put(int fd, const std::string& text) {
  os::write_all(fd, as_bytes(text)).ignore("decoration");
}
}  // namespace

Progress::Progress(int fd) : fd_(fd), enabled_(::isatty(fd) == 1), began_(std::chrono::steady_clock::now()) {}

void Progress::file(std::string name, std::optional<std::uint64_t> size) {
  clear();
  name_ = printable(name);
  size_ = size;
  done_ = 0;
  began_ = std::chrono::steady_clock::now();
  last_ = began_ + kQuiet - kEvery;
}

void Progress::add(std::uint64_t bytes) {
  done_ += bytes;
  if (!enabled_) return;
  auto now = std::chrono::steady_clock::now();
  if (now - last_ < kEvery) return;
  last_ = now;
  draw();
}

void Progress::draw() {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_)
                .count();
  std::string line = "\r\033[K" + name_ + "  " + human_size(done_);
  if (size_ && *size_ > 0)
    line += " of " + human_size(*size_) + " (" + std::to_string(done_ * 100 / *size_) + " %)";
  if (ms > 0) line += "  " + human_size(done_ * 1000 / static_cast<std::uint64_t>(ms)) + "/s";
  put(fd_, line);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) put(fd_, "\r\033[K");
  drawn_ = false;
}

}  // namespace space::cli::copy
