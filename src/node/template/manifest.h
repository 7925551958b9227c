// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a built template is: the record `manifest.json` in its directory, beside disk.img, vmlinuz and
// initramfs.
//
// Written last by the builder and read by every user of a template; a directory without a valid one is not a
// template. Value type.

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "node/template/recipe.h"

namespace space::node::tmpl {

inline constexpr int kManifestFormat = 1;

// Names in a template's directory.
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kDiskFile = "disk.img";   // raw ext4, sparse
inline constexpr const char* kKernelFile = "vmlinuz";  // Linux boot image
inline constexpr const char* kInitramfsFile =
    "initramfs";  // cpio with the Space Daemon and the modules it loads

struct Manifest {
  std::string name;
  std::string description;
  std::string suite;
  Init init = Init::kSpaced;
  Defaults defaults;               // of a session
  std::string recipe_digest;       // Recipe::digest() of the recipe that made the disk
  std::string disk_sha256;         // of disk.img
  std::uint64_t disk_bytes = 0;    // apparent size of disk.img: the smallest disk that a session may have
  std::uint64_t stored_bytes = 0;  // what disk.img takes on the disk
  std::string kernel_version;      // "6.1.0-40-cloud-amd64"
  std::string initramfs_sha256;
  WallTime built;  // when the disk was made; a new initramfs doesn't change it

  bool operator==(const Manifest&) const = default;
};

// JSON text, ending in a newline.
std::string to_json(const Manifest& manifest);
// Unknown members are ignored, so that an older program reads a newer minor form.
// Errors: data_loss template.malformed_manifest; failed_precondition template.newer_format.
Result<Manifest> parse_manifest(std::string_view text);

// Reads DIR/manifest.json and checks that the other files are there and the disk has the size the manifest
// names. Errors: not_found template.not_built; those of parse_manifest; data_loss template.incomplete.
Result<Manifest> load_manifest(const std::string& dir);

}  // namespace space::node::tmpl
