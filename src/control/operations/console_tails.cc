// SPDX-License-Identifier: Apache-2.0
#include "control/operations/console_tails.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "lib/os/file.h"

namespace space::control::operations {

ConsoleTails::ConsoleTails(std::string directory, std::size_t most_files)
    : directory_(std::move(directory)), most_files_(most_files) {
  os::make_directory(directory_).ignore("keep() reports what can't be written");
  prune();
}

Result<void> ConsoleTails::keep(const SandboxId& sandbox, const std::vector<std::uint8_t>& tail) {
  if (tail.empty()) return {};
  std::size_t size = std::min(tail.size(), kMaxTailBytes);
  // SAFETY: bytes alias; the view lies within `tail`.
  std::string_view text(reinterpret_cast<const char*>(tail.data()) + (tail.size() - size), size);
  SPACE_CHECK_OK(
      os::write_file_atomic(directory_ + "/" + sandbox.str() + ".log", text, os::Durability::kBuffered));
  if (++kept_since_prune_ * 16 > most_files_) prune();
  return {};
}

Result<std::string> ConsoleTails::read(const SandboxId& sandbox) const {
  auto text = os::read_file(directory_ + "/" + sandbox.str() + ".log", kMaxTailBytes);
  if (!text.ok() && text.error().code == Code::kNotFound) return std::string();
  return text;
}

void ConsoleTails::prune() {
  kept_since_prune_ = 0;
  auto names = os::list_directory(directory_);
  if (!names.ok() || names->size() <= most_files_) return;
  std::vector<std::pair<std::int64_t, std::string>> by_age;
  for (const std::string& name : *names) {
    struct stat info{};
    std::string path = directory_ + "/" + name;
    if (::stat(path.c_str(), &info) == 0) by_age.emplace_back(info.st_mtim.tv_sec, std::move(path));
  }
  std::sort(by_age.begin(), by_age.end());
  for (std::size_t i = 0; i + most_files_ < by_age.size(); ++i)
    os::remove_tree(by_age[i].second).ignore("the next prune tries again");
}

}  // namespace space::control::operations
