// SPDX-License-Identifier: Apache-2.0
#include "lib/blob/dir_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

namespace space::blob {
namespace {

constexpr const char* kTemporary = "tmp";
constexpr std::size_t kVersionDigits = 20;

std::string folder_of(const std::string& name) {
  auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}
std::string version_path(const std::string& head, std::uint64_t version) {
  return fmt::format("{}/{:020}", head, version);
}
std::optional<std::uint64_t> parse_version(std::string_view name) {
  std::uint64_t version = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  if (name.size() != kVersionDigits || error != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return version;
}
bool has_reason(const Error& error, std::string_view reason) {
  return error.reason == reason;
}

class DirStore final : public ObjectStore {
 public:
  DirStore(FileSystem& files, os::Random& random) : files_(files), random_(random) {}

  Result<void> put(const std::string& name, std::span<const ByteView> parts, Durability durability) override {
    SPACE_CHECK_OK(check_name(name));
    SPACE_CHECK_OK(make_folder(folder_of(name)));
    SPACE_TRY(std::string temporary, write_temporary(parts, durability));
    auto linked = files_.link(temporary, name);
    files_.unlink(temporary).ignore("sweep_temporary() removes what stays");
    SPACE_CHECK_OK(linked);
    if (durability == Durability::kSynced) {
      if (auto synced = files_.sync_directory(folder_of(name)); !synced.ok())
        return uncertain(synced.error(), name);
    }
    return {};
  }

  Result<void> get_range(const std::string& name, std::uint64_t offset, std::span<std::byte> out) override {
    SPACE_CHECK_OK(check_name(name));
    SPACE_TRY(auto file, files_.open(name));
    return read_fully(*file, name, offset, out);
  }

  Result<Bytes> get(const std::string& name, std::size_t max_bytes) override {
    SPACE_CHECK_OK(check_name(name));
    SPACE_TRY(auto file, files_.open(name));
    SPACE_TRY(std::uint64_t bytes, file->size());
    if (bytes > max_bytes) {
      return make_error(Code::kDataLoss, "blob.too_large",
                        fmt::format("{} has {} bytes, more than {}", name, bytes, max_bytes));
    }
    Bytes content(bytes);
    SPACE_CHECK_OK(read_fully(*file, name, 0, content));
    return content;
  }

  Result<std::uint64_t> size(const std::string& name) override {
    SPACE_CHECK_OK(check_name(name));
    SPACE_TRY(auto file, files_.open(name));
    return file->size();
  }

  Result<std::vector<ObjectInfo>> list(const std::string& folder) override {
    SPACE_TRY(auto entries, entries_of(folder));
    std::vector<ObjectInfo> objects;
    for (auto& entry : entries) {
      if (!entry.is_directory) objects.push_back({folder + "/" + entry.name, entry.bytes, entry.modified});
    }
    return objects;
  }

  Result<std::vector<std::string>> list_folders(const std::string& folder) override {
    SPACE_TRY(auto entries, entries_of(folder));
    std::vector<std::string> names;
    for (auto& entry : entries) {
      if (entry.is_directory) names.push_back(std::move(entry.name));
    }
    return names;
  }

  Result<void> remove(const std::string& name) override {
    SPACE_CHECK_OK(check_name(name));
    auto removed = files_.unlink(name);
    if (!removed.ok() && !has_reason(removed.error(), "blob.not_found")) return removed;
    return {};
  }

  Result<std::vector<std::uint64_t>> head_versions(const std::string& name) override {
    SPACE_CHECK_OK(check_name(name));
    SPACE_TRY(auto entries, entries_of(name));
    std::vector<std::uint64_t> versions;
    for (const auto& entry : entries) {
      if (auto version = parse_version(entry.name); version && !entry.is_directory)
        versions.push_back(*version);
    }
    return versions;  // sorted: the numbers have equal width
  }

  Result<HeadValue> read_head_version(const std::string& name, std::uint64_t version) override {
    SPACE_TRY(Bytes bytes, get(version_path(name, version), kMaxHeadBytes));
    return HeadValue{version, std::move(bytes)};
  }

  Result<std::optional<HeadValue>> read_head(const std::string& name) override {
    // The newest may be replaced and, two versions on, removed between the two calls: look again.
    for (int attempt = 0;; ++attempt) {
      SPACE_TRY(auto versions, head_versions(name));
      if (versions.empty()) return std::optional<HeadValue>();
      auto value = read_head_version(name, versions.back());
      if (value.ok()) return std::optional<HeadValue>(std::move(value).value());
      if (!has_reason(value.error(), "blob.not_found") || attempt == 16) return std::move(value).error();
    }
  }

  Result<std::uint64_t> swap_head(const std::string& name, std::uint64_t expected, ByteView bytes) override {
    SPACE_CHECK_OK(check_name(name));
    if (bytes.size() > kMaxHeadBytes)
      return make_error(Code::kInvalidArgument, "blob.too_large", "head is too large");
    SPACE_CHECK_OK(make_folder(name));
    SPACE_TRY(auto before, head_versions(name));
    if ((before.empty() ? 0 : before.back()) != expected) return conflict(name, expected);
    std::uint64_t version = expected + 1;
    std::string path = version_path(name, version);
    SPACE_TRY(std::string temporary, write_temporary(std::span(&bytes, 1), Durability::kSynced));
    auto linked = files_.link(temporary, path);
    files_.unlink(temporary).ignore("sweep_temporary() removes what stays");
    if (!linked.ok()) {
      if (has_reason(linked.error(), "blob.exists")) return conflict(name, expected);
      if (has_reason(linked.error(), "blob.io")) return uncertain(linked.error(), name);
      return std::move(linked).error();
    }
    auto after = head_versions(name);
    auto standing = [&] {
      return std::binary_search(after->begin(), after->end(), version) &&
             (expected == 0 || std::binary_search(after->begin(), after->end(), expected));
    };
    // A listing isn't taken at one instant: what looks like a gap may be a newer version that it missed. A
    // second one, begun after the gap was seen, has it.
    if (after.ok() && !standing()) after = head_versions(name);
    if (!after.ok()) return uncertain(after.error(), name);
    std::uint64_t newest = after->empty() ? 0 : after->back();
    // A number is cleared away only once two newer ones exist. So with none or one above ours, ours was never
    // there before and stands, whatever others have built on it since.
    if (newest >= version + 2) {
      auto synced = files_.sync_directory(name);
      return make_error(Code::kUnavailable, "blob.overtaken",
                        fmt::format("{} moved on from {} to {} meanwhile{}", name, version, newest,
                                    synced.ok() ? "" : " and the disk failed"));
    }
    bool has_predecessor =
        expected == 0 || newest > version || std::binary_search(after->begin(), after->end(), expected);
    if (newest < version || !has_predecessor) {  // the head was removed altogether
      if (auto undone = files_.unlink(path); !undone.ok()) return uncertain(undone.error(), name);
      return conflict(name, expected);
    }
    if (auto synced = files_.sync_directory(name); !synced.ok()) return uncertain(synced.error(), name);
    for (std::uint64_t old : *after) {
      if (old + 1 < version) files_.unlink(version_path(name, old)).ignore("the next swap tries again");
    }
    return version;
  }

  Result<void> remove_head(const std::string& name) override {
    SPACE_TRY(auto versions, head_versions(name));
    // Oldest first: a crash in between leaves the newest, which says that this is a tombstone.
    for (std::uint64_t version : versions) SPACE_CHECK_OK(remove(version_path(name, version)));
    {
      std::lock_guard lock(mutex_);
      known_folders_.erase(name);
    }
    files_.remove_directory(name).ignore("an empty folder is not a head");
    return {};
  }

  Result<std::uint64_t> free_bytes() override { return files_.free_bytes(); }

 private:
  static Error conflict(const std::string& name, std::uint64_t expected) {
    return make_error(Code::kAborted, "blob.conflict",
                      fmt::format("{} is no longer at version {}; read it and try again", name, expected));
  }
  static Error uncertain(const Error& cause, const std::string& name) {
    return make_error(Code::kUnavailable, "blob.uncertain",
                      fmt::format("{} may or may not be durable: {}", name, cause.message));
  }
  static Result<void> check_name(const std::string& name) {
    if (is_valid_name(name)) return {};
    return make_error(Code::kInvalidArgument, "blob.bad_name", "not a name of an object: " + escape(name));
  }

  static Result<void> read_fully(InputFile& file, const std::string& name, std::uint64_t offset,
                                 std::span<std::byte> out) {
    while (!out.empty()) {
      SPACE_TRY(std::size_t got, file.read_at(offset, out));
      if (got == 0) {
        return make_error(Code::kDataLoss, "blob.short", fmt::format("{} ends at byte {}", name, offset));
      }
      offset += got;
      out = out.subspan(got);
    }
    return {};
  }

  Result<std::vector<DirectoryEntry>> entries_of(const std::string& folder) {
    auto entries = files_.list(folder);
    if (!entries.ok() && has_reason(entries.error(), "blob.not_found")) return std::vector<DirectoryEntry>();
    return entries;
  }

  // Folders are made with their parents and made durable, so that an object in them cannot be lost with them.
  Result<void> make_folder(const std::string& folder) {
    if (folder.empty()) return {};
    {
      std::lock_guard lock(mutex_);
      if (known_folders_.contains(folder)) return {};
    }
    std::string parent = folder_of(folder);
    SPACE_CHECK_OK(make_folder(parent));
    SPACE_CHECK_OK(files_.make_directory(folder));
    SPACE_CHECK_OK(files_.sync_directory(parent));
    std::lock_guard lock(mutex_);
    known_folders_.insert(folder);
    return {};
  }

  Result<std::string> write_temporary(std::span<const ByteView> parts, Durability durability) {
    std::string path;
    {
      std::lock_guard lock(mutex_);
      path = std::string(kTemporary) + "/" + random_.id_text();
    }
    SPACE_TRY(auto file, files_.create(path));
    auto written = write_parts(*file, parts);
    if (written.ok() && durability == Durability::kSynced) written = file->sync();
    if (!written.ok()) {
      files_.unlink(path).ignore("sweep_temporary() removes what stays");
      return std::move(written).error();
    }
    return path;
  }

  static Result<void> write_parts(OutputFile& file, std::span<const ByteView> parts) {
    for (ByteView part : parts) {
      while (!part.empty()) {
        SPACE_TRY(std::size_t put, file.write(part));
        part = part.subspan(put);
      }
    }
    return {};
  }

  FileSystem& files_;
  os::Random& random_;
  std::mutex mutex_;                     // guards the two below
  std::set<std::string> known_folders_;  // durable for certain
};

}  // namespace

bool is_valid_name(std::string_view name) {
  std::size_t part = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i == name.size() || name[i] == '/') {
      std::string_view text = name.substr(part, i - part);
      if (text.empty() || text.size() > 255 || text == "." || text == "..") return false;
      part = i + 1;
    } else if (char c = name[i]; !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                   (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-')) {
      return false;
    }
  }
  return true;
}

Result<std::unique_ptr<ObjectStore>> open_dir_store(FileSystem& files, os::Random& random) {
  SPACE_CHECK_OK(files.make_directory(kTemporary));
  return std::unique_ptr<ObjectStore>(std::make_unique<DirStore>(files, random));
}

Result<void> sweep_temporary(FileSystem& files, WallTime before) {
  SPACE_TRY(auto entries, files.list(kTemporary));
  for (const auto& entry : entries) {
    if (entry.modified < before) SPACE_CHECK_OK(files.unlink(std::string(kTemporary) + "/" + entry.name));
  }
  return {};
}

}  // namespace space::blob
