// SPDX-License-Identifier: Apache-2.0
#include "node/template/build_main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <climits>
#include <cstdio>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "node/template/build.h"
#include "node/template/workspace.h"

namespace space::node::tmpl {
namespace {

enum class Form : std::uint8_t { kText, kJson };

void print_json(const boost::json::object& object) {
  fmt::print("{}\n", boost::json::serialize(object));
  std::fflush(stdout);
}

void show_progress(Form form, const Progress& progress) {
  if (form == Form::kJson) {
    print_json({{"progress", progress.line}, {"elapsed_ms", progress.elapsed.count()}});
  } else {
    fmt::print(stderr, "[{:6.1f}s] {}\n", static_cast<double>(progress.elapsed.count()) / 1000.0,
               progress.line);
  }
}

int fail(Form form, const Error& error) {
  if (form == Form::kJson) {
    print_json({{"error",
                 {{"code", to_string(error.code)},
                  {"reason", error.reason},
                  {"message", error.message},
                  {"field", error.field}}}});
  } else {
    fmt::print(stderr, "space-node build-template: {}\n", error.describe());
  }
  return 1;
}

}  // namespace

Locations locate(const std::string& bin_dir) {
  const std::string up = parent_of(bin_dir);
  const std::string shared = up + "/share/space/templates";
  return {bin_dir + "/spaced",
          shared + "/mkinitramfs",
          {shared},
          {up + "/templates", parent_of(up) + "/templates"}};
}

std::string program_dir() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 ? "." : parent_of(std::string(path, static_cast<std::size_t>(n)));
}

int build_template_main(int argc, char** argv) {
  const Locations places = locate(program_dir());
  std::string recipe_path;
  BuildOptions options;
  options.cache_dir = "/var/cache/space";
  options.spaced = places.spaced;
  options.mkinitramfs = places.mkinitramfs;
  bool rebuild = false;
  bool json = false;
  bool die_with_parent = false;
  CLI::App app("Builds a template from a recipe.", "space-node build-template");
  app.add_option("--recipe", recipe_path, "The recipe, templates/NAME.toml")->required();
  app.add_option("--out", options.out_dir, "The template's directory, replaced in one step")->required();
  app.add_option("--cache", options.cache_dir, "Downloaded packages, kept between builds")
      ->capture_default_str();
  app.add_option("--spaced", options.spaced, "The Space Daemon's binary")->capture_default_str();
  app.add_option("--mkinitramfs", options.mkinitramfs, "The program that makes the initramfs")
      ->capture_default_str();
  app.add_option("--apt-sources", options.sources_file, "Package archives to use instead of this machine's");
  app.add_flag("--rebuild", rebuild,
               "Make the disk again from the newest packages even if the recipe is unchanged");
  app.add_flag("--json", json, "Progress and result as JSON lines on stdout");
  app.add_flag("--die-with-parent", die_with_parent, "End when the process that started this one ends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (die_with_parent) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Form form = json ? Form::kJson : Form::kText;
  options.rebuild = rebuild ? Rebuild::kAlways : Rebuild::kWhenChanged;
  const auto recipe = load_recipe(recipe_path);
  if (!recipe.ok()) return fail(form, recipe.error());
  const SystemClock clock;
  const auto manifest = build(*recipe, options, clock, [&](const Progress& p) { show_progress(form, p); });
  if (!manifest.ok()) return fail(form, manifest.error());
  if (form == Form::kJson) {
    print_json({{"manifest", boost::json::parse(to_json(*manifest))}});
  } else {
    fmt::print("{}\n", options.out_dir);
  }
  return 0;
}

}  // namespace space::node::tmpl
