// SPDX-License-Identifier: Apache-2.0
#include "bench/store/image.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "lib/os/file.h"

namespace space::bench {
namespace {

constexpr std::size_t kPage = 4096;

// Contents of files below some folders, in order of their paths, up to `bytes`.
Bytes collect(std::initializer_list<const char*> folders, std::uint64_t bytes) {
  Bytes all;
  for (const char* folder : folders) {
    std::error_code error;
    std::vector<std::string> paths;
    for (auto it = std::filesystem::recursive_directory_iterator(folder, error);
         !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
      if (it->is_regular_file(error) && !it->is_symlink(error)) paths.push_back(it->path().string());
    }
    std::ranges::sort(paths);
    for (const std::string& path : paths) {
      if (all.size() >= bytes) return all;
      auto content = os::read_file(path, 64u << 20);
      if (!content.ok()) continue;
      ByteView view = as_bytes(*content);
      view = view.first(view.size() / kPage * kPage);
      all.insert(all.end(), view.begin(), view.end());
    }
  }
  return all;
}

}  // namespace

Result<Image> make_image(std::uint64_t bytes) {
  // Of 100 pages: 45 zero, 30 of code, 20 of text, 5 random.
  Bytes code = collect({"/usr/lib/x86_64-linux-gnu", "/usr/bin"}, bytes * 30 / 100);
  Bytes text = collect({"/usr/share/doc", "/usr/include", "/usr/lib/python3"}, bytes * 20 / 100);
  if (code.size() < kPage || text.size() < kPage) {
    return make_error(Code::kFailedPrecondition, "bench.no_data",
                      "this machine has too few files to make an image from");
  }
  Image image;
  image.bytes.resize(bytes / kPage * kPage);
  std::mt19937_64 random(1);
  std::size_t code_at = 0;
  std::size_t text_at = 0;
  for (std::size_t at = 0; at < image.bytes.size();) {
    // Runs of 1 to 32 pages of a kind, as allocators leave them.
    std::size_t run = std::min<std::size_t>((1 + random() % 32) * kPage, image.bytes.size() - at);
    auto kind = random() % 100;
    if (kind < 45) {
      at += run;
      continue;
    }
    image.nonzero_bytes += run;
    for (std::size_t end = at + run; at < end; at += kPage) {
      if (kind < 95) {
        const Bytes& source = kind < 75 ? code : text;
        std::size_t& from = kind < 75 ? code_at : text_at;
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), kPage,
                    image.bytes.begin() + static_cast<std::ptrdiff_t>(at));
        from = (from + kPage) % source.size();
      } else {
        for (std::size_t i = 0; i < kPage; i += 8)
          store_le(image.bytes.data() + at + i, std::uint64_t{random()});
      }
    }
  }
  return image;
}

}  // namespace space::bench
