// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds a template from a recipe: a directory with disk.img, vmlinuz, initramfs and manifest.json.
//
// Blocking, for minutes when packages must be fetched; the caller runs it in a process of its own and ends it
// by killing that process: its tools die with it, and what it left is removed by the next build of the
// template. Needs root. The directory appears, or takes the place of an older one, in one step; on an error
// the older one stays.

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "node/template/manifest.h"
#include "node/template/progress.h"
#include "node/template/recipe.h"

namespace space::node::tmpl {

enum class Rebuild : std::uint8_t {
  kWhenChanged,  // a disk made from the same recipe digest is kept; kernel and initramfs are made anew
                 // (seconds)
  kAlways,       // newest packages and kernel
};

struct BuildOptions {
  std::string out_dir;       // the template's directory; its parent is made
  std::string cache_dir;     // packages, lists, kernels; shared by builds, which take turns
  std::string spaced;        // the Space Daemon's binary
  std::string mkinitramfs;   // templates/mkinitramfs
  std::string sources_file;  // apt sources to use; empty: this machine's own
  Rebuild rebuild = Rebuild::kWhenChanged;
};

// Errors: template.no_sources, template.no_network, template.no_space, template.package_not_found,
// template.disk_too_small, template.bad_file, template.tool_missing, template.not_root, template.tool_failed,
// template.no_kernel, os.file.
Result<Manifest> build(const Recipe& recipe, const BuildOptions& options, const Clock& clock,
                       const ProgressFn& progress);

}  // namespace space::node::tmpl
