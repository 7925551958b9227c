// SPDX-License-Identifier: Apache-2.0
#include "node/template/recipe.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "lib/base/bytes.h"
#include "lib/os/file.h"
#include "node/template/digest.h"

namespace space::node::tmpl {
namespace {

// Goes into every digest: raise it when the builder makes other bytes from the same recipe, so that disks are
// rebuilt.
constexpr int kBuilderVersion = 3;
constexpr std::size_t kMaxFiles = 200;
constexpr std::size_t kMaxSteps = 100;
constexpr std::size_t kMaxArguments = 200;
constexpr std::uint32_t kMaxVcpus = 256;

Error bad(std::string field, std::string message) {
  return field_error(std::move(field), "template.malformed_recipe", std::move(message));
}

std::string at_line(const toml::node& node) {
  return fmt::format(" (line {})", node.source().begin.line);
}

bool only(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || extra.find(c) != std::string_view::npos;
  });
}
bool starts_alphanumeric(std::string_view text) {
  return !text.empty() && only(text.substr(0, 1), "");
}

// "name" or "name=version". Nothing that apt would take for an option or a pattern.
bool is_package(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (text.size() > 200 || !starts_alphanumeric(name) || !only(name, "+.-")) return false;
  if (equals == std::string_view::npos) return true;
  const std::string_view version = text.substr(equals + 1);
  return !version.empty() && only(version, "+.-~:ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

bool is_inner_path(std::string_view path) {
  if (path.size() < 2 || path.size() > 4000 || path[0] != '/' || path.back() == '/') return false;
  if (path.find('\0') != std::string_view::npos || path.find("//") != std::string_view::npos) return false;
  return (std::string(path) + "/").find("/../") == std::string::npos &&
         (std::string(path) + "/").find("/./") == std::string::npos;
}

// Every key of `table` must be one of `known`.
Result<void> refuse_unknown(const toml::table& table, const std::string& prefix,
                            std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
      return bad(prefix + std::string(key.str()),
                 fmt::format("unknown key \"{}{}\"{}", prefix, key.str(), at_line(value)));
    }
  }
  return {};
}

Result<std::optional<std::string>> text_at(const toml::table& table, std::string_view key,
                                           const std::string& field) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return std::optional<std::string>();
  const auto* value = node->as_string();
  if (value == nullptr) return bad(field, fmt::format("\"{}\" must be a string{}", field, at_line(*node)));
  return std::optional<std::string>(value->get());
}

Result<std::vector<std::string>> texts_at(const toml::table& table, std::string_view key,
                                          const std::string& field, std::size_t max) {
  std::vector<std::string> out;
  const toml::node* node = table.get(key);
  if (node == nullptr) return out;
  const auto* array = node->as_array();
  if (array == nullptr)
    return bad(field, fmt::format("\"{}\" must be a list of strings{}", field, at_line(*node)));
  if (array->size() > max) return bad(field, fmt::format("\"{}\" has more than {} entries", field, max));
  for (const toml::node& item : *array) {
    const auto* value = item.as_string();
    if (value == nullptr)
      return bad(field, fmt::format("\"{}\" must be a list of strings{}", field, at_line(item)));
    if (value->get().find('\0') != std::string::npos)
      return bad(field, fmt::format("\"{}\" contains a NUL", field));
    out.push_back(value->get());
  }
  return out;
}

Result<std::uint64_t> size_at(const toml::table& table, std::string_view key, const std::string& field,
                              std::uint64_t fallback) {
  SPACE_TRY(const auto text, text_at(table, key, field));
  if (!text) return fallback;
  auto size = parse_size(*text);
  if (!size.ok()) return bad(field, fmt::format("\"{}\": {}", field, size.error().message));
  return *size;
}

Result<Defaults> parse_defaults(const toml::table& root) {
  Defaults out;
  const toml::node* node = root.get("defaults");
  if (node == nullptr) return out;
  const auto* table = node->as_table();
  if (table == nullptr) return bad("defaults", "\"defaults\" must be a table" + at_line(*node));
  SPACE_CHECK_OK(refuse_unknown(*table, "defaults.", {"vcpus", "memory", "disk"}));
  if (const toml::node* vcpus = table->get("vcpus")) {
    const auto* value = vcpus->as_integer();
    if (value == nullptr || value->get() < 1 || value->get() > kMaxVcpus) {
      return bad("defaults.vcpus", fmt::format("\"vcpus\" must be 1 to {}{}", kMaxVcpus, at_line(*vcpus)));
    }
    out.vcpus = static_cast<std::uint32_t>(value->get());
  }
  SPACE_TRY(out.memory_bytes, size_at(*table, "memory", "defaults.memory", out.memory_bytes));
  SPACE_TRY(out.disk_bytes, size_at(*table, "disk", "defaults.disk", out.disk_bytes));
  if (out.memory_bytes < kMinMemoryBytes) {
    return bad("defaults.memory", "\"memory\" must be at least " + format_size(kMinMemoryBytes));
  }
  if (out.disk_bytes < kMinDiskBytes || out.disk_bytes > kMaxDiskBytes || out.disk_bytes % kMiB != 0) {
    return bad("defaults.disk", fmt::format("\"disk\" must be {} to {}, in whole MiB",
                                            format_size(kMinDiskBytes), format_size(kMaxDiskBytes)));
  }
  return out;
}

Result<std::vector<RecipeFile>> parse_files(const toml::table& root) {
  std::vector<RecipeFile> out;
  const toml::node* node = root.get("files");
  if (node == nullptr) return out;
  const auto* array = node->as_array();
  if (array == nullptr || array->size() > kMaxFiles) {
    return bad("files",
               fmt::format("\"files\" must be a list of at most {} tables{}", kMaxFiles, at_line(*node)));
  }
  for (const toml::node& item : *array) {
    const auto* table = item.as_table();
    if (table == nullptr) return bad("files", "\"files\" must be a list of tables" + at_line(item));
    SPACE_CHECK_OK(refuse_unknown(*table, "files.", {"path", "content", "mode"}));
    RecipeFile file;
    SPACE_TRY(const auto path, text_at(*table, "path", "files.path"));
    if (!path || !is_inner_path(*path)) {
      return bad("files.path", "\"path\" must be an absolute path without . and .. in it" + at_line(item));
    }
    file.path = *path;
    SPACE_TRY(const auto content, text_at(*table, "content", "files.content"));
    file.content = content.value_or("");
    SPACE_TRY(const auto mode, text_at(*table, "mode", "files.mode"));
    if (mode) {
      const bool octal = !mode->empty() && mode->size() <= 5 &&
                         std::all_of(mode->begin(), mode->end(), [](char c) { return c >= '0' && c <= '7'; });
      if (!octal)
        return bad("files.mode", "\"mode\" must be octal digits in quotes, as \"0644\"" + at_line(item));
      file.mode = static_cast<std::uint32_t>(std::stoul(*mode, nullptr, 8)) & 07777u;
    }
    out.push_back(std::move(file));
  }
  return out;
}

Result<std::vector<RunStep>> parse_run(const toml::table& root) {
  std::vector<RunStep> out;
  const toml::node* node = root.get("run");
  if (node == nullptr) return out;
  const auto* array = node->as_array();
  if (array == nullptr || array->size() > kMaxSteps) {
    return bad("run",
               fmt::format("\"run\" must be a list of at most {} tables{}", kMaxSteps, at_line(*node)));
  }
  for (const toml::node& item : *array) {
    const auto* table = item.as_table();
    if (table == nullptr) return bad("run", "\"run\" must be a list of tables with \"argv\"" + at_line(item));
    SPACE_CHECK_OK(refuse_unknown(*table, "run.", {"argv"}));
    SPACE_TRY(auto argv, texts_at(*table, "argv", "run.argv", kMaxArguments));
    if (argv.empty() || argv[0].empty()) return bad("run.argv", "\"argv\" names no program" + at_line(item));
    out.push_back(RunStep{std::move(argv)});
  }
  return out;
}

// Length before content, so that no two recipes feed the same bytes.
void feed(Sha256& sha, std::string_view text) {
  sha.update(as_bytes(fmt::format("{}:", text.size())));
  sha.update(as_bytes(text));
}

}  // namespace

std::string_view to_string(Init init) {
  return init == Init::kSystemd ? "systemd" : "spaced";
}

Result<Init> init_from_string(std::string_view text) {
  if (text == "spaced") return Init::kSpaced;
  if (text == "systemd") return Init::kSystemd;
  return bad("init", "\"init\" must be \"spaced\" or \"systemd\"");
}

std::vector<std::string> Recipe::all_packages() const {
  std::vector<std::string> out = packages;
  if (init == Init::kSystemd) out.insert(out.end(), {"dbus", "systemd", "systemd-sysv"});
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string Recipe::digest() const {
  Sha256 sha;
  feed(sha, fmt::format("space template {}", kBuilderVersion));
  feed(sha, suite);
  feed(sha, to_string(init));
  feed(sha, std::to_string(defaults.disk_bytes));
  const auto all = all_packages();
  feed(sha, std::to_string(all.size()));
  for (const auto& package : all) feed(sha, package);
  feed(sha, std::to_string(files.size()));
  for (const auto& file : files) {
    feed(sha, file.path);
    feed(sha, std::to_string(file.mode));
    feed(sha, file.content);
  }
  feed(sha, std::to_string(run.size()));
  for (const auto& step : run) {
    feed(sha, std::to_string(step.argv.size()));
    for (const auto& argument : step.argv) feed(sha, argument);
  }
  return sha.hex();
}

bool is_template_name(std::string_view name) {
  return name.size() <= 63 && starts_alphanumeric(name) && only(name, "-");
}

Result<Recipe> parse_recipe(std::string_view text) {
  if (text.size() > kMaxRecipeBytes)
    return bad("", "the recipe is larger than " + format_size(kMaxRecipeBytes));
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return bad("", fmt::format("not valid TOML: {} (line {})", parsed.error().description(),
                               parsed.error().source().begin.line));
  }
  const toml::table& root = parsed.table();
  SPACE_CHECK_OK(refuse_unknown(
      root, "", {"name", "description", "suite", "packages", "init", "defaults", "files", "run"}));
  Recipe recipe;
  SPACE_TRY(const auto name, text_at(root, "name", "name"));
  if (!name || !is_template_name(*name)) {
    return bad("name", "\"name\" must be 1 to 63 characters of a-z, 0-9 and -, not starting with -");
  }
  recipe.name = *name;
  SPACE_TRY(const auto description, text_at(root, "description", "description"));
  recipe.description = description.value_or("");
  if (recipe.description.size() > 1000)
    return bad("description", "\"description\" is longer than 1000 bytes");
  SPACE_TRY(const auto suite, text_at(root, "suite", "suite"));
  if (!suite || suite->size() > 63 || !starts_alphanumeric(*suite) || !only(*suite, "-")) {
    return bad("suite", "\"suite\" must name a Debian release, as \"bookworm\"");
  }
  recipe.suite = *suite;
  SPACE_TRY(recipe.packages, texts_at(root, "packages", "packages", kMaxPackages));
  for (const auto& package : recipe.packages) {
    if (!is_package(package))
      return bad("packages", fmt::format("\"{}\" is not a package name", escape(package)));
  }
  SPACE_TRY(const auto init, text_at(root, "init", "init"));
  SPACE_TRY(recipe.init, init_from_string(init.value_or("spaced")));
  SPACE_TRY(recipe.defaults, parse_defaults(root));
  SPACE_TRY(recipe.files, parse_files(root));
  SPACE_TRY(recipe.run, parse_run(root));
  return recipe;
}

Result<Recipe> load_recipe(const std::string& path) {
  auto text = os::read_file(path, kMaxRecipeBytes);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) {
      return make_error(Code::kNotFound, "template.recipe_not_found", "there is no recipe " + path);
    }
    return std::move(text).error();
  }
  auto recipe = parse_recipe(*text);
  if (!recipe.ok()) return std::move(recipe).error().context(path);
  const std::string file = path.substr(path.rfind('/') + 1);
  if (file != recipe->name + ".toml") {
    return bad("name", fmt::format("{}: the recipe is named \"{}\", so the file must be {}.toml", path,
                                   recipe->name, recipe->name));
  }
  return recipe;
}

}  // namespace space::node::tmpl
