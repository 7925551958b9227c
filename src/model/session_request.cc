// SPDX-License-Identifier: Apache-2.0
#include "model/session_request.h"

#include <algorithm>

#include "lib/base/size.h"

namespace space::model {
namespace {

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_label_name(std::string_view text, std::string_view inner) {
  if (text.empty() || text.size() > 63) return false;
  if (!is_lower_or_digit(text.front()) || !is_lower_or_digit(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_lower_or_digit(c) || inner.find(c) != std::string_view::npos; });
}

Error size_error(std::string_view field, const char* reason, std::uint64_t least, std::uint64_t most) {
  std::string message = std::string(field) + " must be a multiple of 1 MiB, at least " + format_size(least);
  if (most != 0) message += " and at most " + format_size(most);
  return field_error(std::string(field), reason, std::move(message));
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (is_label_name(name, "-")) return {};
  return field_error("name", "model.bad_name",
                     "a name has 1 to 63 characters of a-z, 0-9 and -, and neither begins nor ends with -");
}

Result<void> check_template_name(std::string_view name, std::string_view field) {
  if (is_label_name(name, "-._")) return {};
  return field_error(std::string(field), "model.bad_template_name",
                     "a template name has 1 to 63 characters of a-z, 0-9, '-', '.' and '_', the first and "
                     "last of a-z and 0-9");
}

Result<void> check_ttl(std::uint64_t ttl_seconds) {
  if (ttl_seconds >= 1 && ttl_seconds <= kMaxTtlSeconds) return {};
  return field_error("ttl_seconds", "model.bad_ttl",
                     "ttl_seconds must be 1 to " + std::to_string(kMaxTtlSeconds) +
                         "; a session without an end is not offered");
}

Result<void> check_labels(const Labels& labels) {
  auto bad = [](const char* message) { return field_error("labels", "model.bad_labels", message); };
  if (labels.size() > kMaxLabels) return bad("a session may have at most 64 labels");
  for (const auto& [key, value] : labels) {
    auto key_char = [](char c) {
      return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '/' || c == '-';
    };
    if (key.empty() || key.size() > 63 || !std::all_of(key.begin(), key.end(), key_char)) {
      return bad("a label's key has 1 to 63 characters of A-Z, a-z, 0-9, '.', '_', '/' and '-'");
    }
    if (value.size() > 255 || std::any_of(value.begin(), value.end(), [](char c) {
          return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        })) {
      return bad("a label's value has at most 255 bytes and no control characters");
    }
  }
  return {};
}

Result<void> check_request(const SessionRequest& request) {
  if (request.name) SPACE_CHECK_OK(check_name(*request.name));
  SPACE_CHECK_OK(check_template_name(request.template_name));
  SPACE_CHECK_OK(check_ttl(request.ttl_seconds));
  SPACE_CHECK_OK(check_labels(request.labels));
  // Bounds that hold for every template and host, so that nonsense is refused even while the node is away.
  SPACE_CHECK_OK(resolve_resources(request, Resources{1, kMinMemoryBytes, kSizeGranule}, HostSize{}));
  return {};
}

Result<Resources> resolve_resources(const SessionRequest& request, const Resources& defaults,
                                    const HostSize& host) {
  std::uint64_t vcpus = request.vcpus.value_or(defaults.vcpus);
  std::uint32_t most_vcpus = host.cpus == 0 ? kMaxVcpus : std::min(kMaxVcpus, host.cpus);
  if (vcpus < 1 || vcpus > most_vcpus) {
    return field_error("vcpus", "model.bad_vcpus",
                       "vcpus must be 1 to " + std::to_string(most_vcpus) + " on this host");
  }
  std::uint64_t memory = request.memory_bytes.value_or(defaults.memory_bytes);
  if (memory < kMinMemoryBytes || memory % kSizeGranule != 0 ||
      (host.memory_bytes != 0 && memory > host.memory_bytes)) {
    return size_error("memory_bytes", "model.bad_memory", kMinMemoryBytes, host.memory_bytes);
  }
  std::uint64_t disk = request.disk_bytes.value_or(defaults.disk_bytes);
  std::uint64_t least_disk = std::max(defaults.disk_bytes, kSizeGranule);
  if (disk < least_disk || disk % kSizeGranule != 0 || disk > kMaxDiskBytes) {
    return size_error("disk_bytes", "model.bad_disk", least_disk, kMaxDiskBytes);
  }
  return Resources{static_cast<std::uint32_t>(vcpus), memory, disk};
}

}  // namespace space::model
