// SPDX-License-Identifier: Apache-2.0
#pragma once
// Downloaded packages and package lists, kept between builds: `<cache>/apt/<suite>/{archives,lists}`, and
// unpacked kernels: `<cache>/kernel/<package>_<version>/`. A build holds the cache's lock (`<cache>/lock`).

#include <string>

#include "lib/base/result.h"
#include "node/template/tool.h"

namespace space::node::tmpl {

struct PackageCache {
  std::string archives;  // *.deb
  std::string lists;     // what `apt-get update` fetched
  std::string kernels;
  std::string sources;   // file: deb822 text of the archives in use
  std::string settings;  // file: apt configuration, how to reach them

  // Makes the directories and writes the two files.
  static Result<PackageCache> open(const std::string& cache_dir, std::string_view suite,
                                   std::string_view sources_text, std::string_view settings_text);

  // Options that make apt-get and apt-cache use this cache and nothing of the machine's own state.
  [[nodiscard]] std::vector<std::string> apt_options() const;
};

struct Kernel {
  std::string version;  // "6.1.0-40-cloud-amd64"
  std::string image;    // path of vmlinuz
  std::string modules;  // path of lib/modules/<version>
};

enum class KernelChoice : std::uint8_t {
  kNewest,  // asks the archive
  kCached,  // the newest one in the cache; asks the archive when there is none
};

// Debian's cloud kernel for this machine's architecture.
Result<Kernel> fetch_kernel(const PackageCache& cache, KernelChoice choice, Reporter& reporter);

}  // namespace space::node::tmpl
