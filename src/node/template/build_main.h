// SPDX-License-Identifier: Apache-2.0
#pragma once
// `space-node build-template`: one build in a process of its own.
//
//   space-node build-template --recipe templates/base.toml --out build/templates/base
//       [--cache DIR] [--spaced BIN] [--mkinitramfs FILE] [--apt-sources FILE] [--rebuild] [--json]
//
// Progress goes to stderr, "[  12.3s] installing packages"; the path of the template to stdout. With --json
// every line on stdout is an object: {"progress":"...","elapsed_ms":N} while it runs, then {"manifest":{...}}
// or
// {"error":{"code":"...","reason":"...","message":"...","field":"..."}} as the last. Exit status: 0, 1 after
// an error, 2 for wrong arguments. SIGTERM or the death of the parent (with --die-with-parent) end it;
// nothing half-made stays visible.

#include <string>
#include <vector>

namespace space::node::tmpl {

// `argv[0]` is the word build-template.
int build_template_main(int argc, char** argv);

// Where things are by default, relative to the folder `bin_dir` of the running program.
struct Locations {
  std::string spaced;                      // beside the program
  std::string mkinitramfs;                 // ../share/space/templates/mkinitramfs
  std::vector<std::string> recipe_dirs;    // ../share/space/templates
  std::vector<std::string> template_dirs;  // read-only built templates: ../templates, ../../templates
};
Locations locate(const std::string& bin_dir);
// The folder of /proc/self/exe.
std::string program_dir();

}  // namespace space::node::tmpl
