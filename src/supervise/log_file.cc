// SPDX-License-Identifier: Apache-2.0
#include "supervise/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <cstdio>

#include "lib/base/bytes.h"
#include "lib/os/file.h"

namespace space::supervise {
namespace json = boost::json;

namespace {

constexpr std::size_t kShownBytes = 2000;

void put_aside(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || info.st_size == 0) return;
  for (int i = kKeptLogs; i > 0; --i) {
    std::string from = i == 1 ? path : path + "." + std::to_string(i - 1);
    std::rename(from.c_str(), (path + "." + std::to_string(i)).c_str());
  }
}

std::string text_of(const json::object& object, const char* name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

Result<LogFile> LogFile::open(const std::string& path, std::size_t max_bytes) {
  put_aside(path);
  SPACE_TRY(os::Fd fd, os::open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  return LogFile(path, std::move(fd), max_bytes);
}

void LogFile::append(std::string_view bytes) {
  if (size_ + bytes.size() > max_bytes_) {
    put_aside(path_);
    if (auto fresh = os::open_file(path_, O_WRONLY | O_CREAT | O_APPEND, 0600); fresh.ok())
      fd_ = std::move(fresh).value();
    size_ = 0;
  }
  size_ += bytes.size();
  os::write_all(fd_.get(), as_bytes(bytes)).ignore("a full disk must not stop the platform");
}

void LineSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& take) {
  rest_.append(bytes);
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (end > begin) take(std::string_view(rest_).substr(begin, end - begin));
  }
  rest_.erase(0, begin);
  for (; rest_.size() >= kMaxLine; rest_.erase(0, kMaxLine))
    take(std::string_view(rest_).substr(0, kMaxLine));
}

std::optional<std::string> line_to_show(const std::string& name, std::string_view line) {
  json::error_code error;
  json::value value;
  if (line.starts_with('{')) value = json::parse({line.data(), line.size()}, error);
  const auto* object = error ? nullptr : value.if_object();
  if (object == nullptr || object->if_contains("event") == nullptr)
    return name + ": " + escape(line, kShownBytes);
  std::string level = text_of(*object, "level");
  if (level != "warning" && level != "error") return std::nullopt;
  std::string shown = name + ": " + level + ": " + text_of(*object, "event");
  for (const auto& [key, field] : *object) {
    if (key == "time" || key == "level" || key == "process" || key == "event" || !field.is_string()) continue;
    shown.append(" ")
        .append(key.data(), key.size())
        .append("=")
        .append(field.get_string().data(), field.get_string().size());
  }
  return escape(shown, kShownBytes);
}

}  // namespace space::supervise
