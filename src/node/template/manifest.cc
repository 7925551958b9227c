// SPDX-License-Identifier: Apache-2.0
#include "node/template/manifest.h"

#include <sys/stat.h>

#include <fmt/core.h>
#include <boost/json.hpp>

#include "lib/os/file.h"

namespace space::node::tmpl {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxManifestBytes = 1u << 20;

Error malformed(std::string_view what) {
  return make_error(
      Code::kDataLoss, "template.malformed_manifest",
      fmt::format("{} of a template is damaged: {}; build the template again", kManifestFile, what));
}

Result<std::string> text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return malformed(fmt::format("no text \"{}\"", key));
  return std::string(std::string_view(value->get_string()));
}

Result<std::uint64_t> number_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return malformed(fmt::format("no number \"{}\"", key));
  json::error_code ec;
  const auto number = value->to_number<std::uint64_t>(ec);
  if (ec) return malformed(fmt::format("\"{}\" is not a whole number", key));
  return number;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string to_json(const Manifest& m) {
  json::object object;
  object["format"] = kManifestFormat;
  object["name"] = m.name;
  object["description"] = m.description;
  object["suite"] = m.suite;
  object["init"] = to_string(m.init);
  object["recipe_digest"] = m.recipe_digest;
  object["disk_sha256"] = m.disk_sha256;
  object["disk_bytes"] = m.disk_bytes;
  object["stored_bytes"] = m.stored_bytes;
  object["kernel_version"] = m.kernel_version;
  object["initramfs_sha256"] = m.initramfs_sha256;
  object["built"] = to_rfc3339(m.built);
  object["defaults"] = json::object{{"vcpus", m.defaults.vcpus},
                                    {"memory_bytes", m.defaults.memory_bytes},
                                    {"disk_bytes", m.defaults.disk_bytes}};
  return json::serialize(object) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  json::error_code ec;
  json::parse_options options;
  options.max_depth = 8;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), ec, {}, options);
  if (ec || !value.is_object()) return malformed("not a JSON object");
  const json::object& object = value.get_object();
  SPACE_TRY(const std::uint64_t format, number_in(object, "format"));
  if (format > static_cast<std::uint64_t>(kManifestFormat)) {
    return make_error(
        Code::kFailedPrecondition, "template.newer_format",
        fmt::format("the template was built by a newer version (format {}); build it again", format));
  }
  Manifest m;
  SPACE_TRY(m.name, text_in(object, "name"));
  SPACE_TRY(m.description, text_in(object, "description"));
  SPACE_TRY(m.suite, text_in(object, "suite"));
  SPACE_TRY(const std::string init, text_in(object, "init"));
  auto parsed_init = init_from_string(init);
  if (!parsed_init.ok()) return malformed(parsed_init.error().message);
  m.init = *parsed_init;
  SPACE_TRY(m.recipe_digest, text_in(object, "recipe_digest"));
  SPACE_TRY(m.disk_sha256, text_in(object, "disk_sha256"));
  SPACE_TRY(m.disk_bytes, number_in(object, "disk_bytes"));
  SPACE_TRY(m.stored_bytes, number_in(object, "stored_bytes"));
  SPACE_TRY(m.kernel_version, text_in(object, "kernel_version"));
  SPACE_TRY(m.initramfs_sha256, text_in(object, "initramfs_sha256"));
  SPACE_TRY(const std::string built, text_in(object, "built"));
  auto when = parse_rfc3339(built);
  if (!when.ok()) return malformed("\"built\" is not a time");
  m.built = *when;
  const json::value* defaults = object.if_contains("defaults");
  if (defaults == nullptr || !defaults->is_object()) return malformed("no object \"defaults\"");
  SPACE_TRY(const std::uint64_t vcpus, number_in(defaults->get_object(), "vcpus"));
  m.defaults.vcpus = static_cast<std::uint32_t>(vcpus);
  SPACE_TRY(m.defaults.memory_bytes, number_in(defaults->get_object(), "memory_bytes"));
  SPACE_TRY(m.defaults.disk_bytes, number_in(defaults->get_object(), "disk_bytes"));
  if (!is_template_name(m.name)) return malformed("\"name\" is not a template name");
  if (!is_sha256(m.disk_sha256) || !is_sha256(m.initramfs_sha256) || !is_sha256(m.recipe_digest)) {
    return malformed("a digest is not a SHA-256");
  }
  if (vcpus < 1 || vcpus > 256 || m.disk_bytes == 0 || m.disk_bytes > kMaxDiskBytes)
    return malformed("a size is absurd");
  return m;
}

Result<Manifest> load_manifest(const std::string& dir) {
  auto text = os::read_file(dir + "/" + kManifestFile, kMaxManifestBytes);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) {
      return make_error(Code::kNotFound, "template.not_built", "there is no built template in " + dir);
    }
    return std::move(text).error();
  }
  SPACE_TRY(Manifest manifest, parse_manifest(*text));
  for (const char* name : {kDiskFile, kKernelFile, kInitramfsFile}) {
    struct stat st{};
    const bool there = ::stat((dir + "/" + name).c_str(), &st) == 0 && S_ISREG(st.st_mode);
    const bool right_size =
        name != kDiskFile || static_cast<std::uint64_t>(st.st_size) == manifest.disk_bytes;
    if (!there || !right_size) {
      return make_error(
          Code::kDataLoss, "template.incomplete",
          fmt::format("{}/{} is missing or has the wrong size; build the template again", dir, name));
    }
  }
  return manifest;
}

}  // namespace space::node::tmpl
