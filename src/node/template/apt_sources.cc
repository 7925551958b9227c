// SPDX-License-Identifier: Apache-2.0
#include "node/template/apt_sources.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/core.h>

#include "lib/os/file.h"

namespace space::node::tmpl {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::vector<std::string> lines(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : " ") + item;
  return out;
}

// "deb [signed-by=K trusted=yes] URI SUITE COMPONENT..."
bool parse_line(std::string_view line, AptSource& out) {
  line = line.substr(0, line.find('#'));
  std::string options;
  if (const std::size_t open = line.find('['); open != std::string_view::npos) {
    const std::size_t close = line.find(']', open);
    if (close == std::string_view::npos) return false;
    options = line.substr(open + 1, close - open - 1);
    const std::vector<std::string> before = words(line.substr(0, open));
    if (before.size() != 1 || before[0] != "deb") return false;
    line.remove_prefix(close + 1);
  } else {
    const std::size_t deb = line.find("deb");
    if (deb == std::string_view::npos || words(line)[0] != "deb") return false;
    line.remove_prefix(deb + 3);
  }
  const std::vector<std::string> rest = words(line);
  if (rest.size() < 3) return false;  // no component: a flat archive, not Debian's
  out.uris = {rest[0]};
  out.suites = {rest[1]};
  out.components.assign(rest.begin() + 2, rest.end());
  for (const auto& option : words(options)) {
    if (option.starts_with("signed-by=")) out.signed_by = option.substr(10);
    if (option == "trusted=yes") out.trusted = true;
  }
  return true;
}

AptSource from_fields(const std::map<std::string, std::string>& fields) {
  const auto get = [&](const char* name) {
    const auto at = fields.find(name);
    return at == fields.end() ? std::string() : at->second;
  };
  AptSource out;
  if (!has(words(get("types")), "deb") || lower(get("enabled")) == "no") return out;
  out.uris = words(get("uris"));
  out.suites = words(get("suites"));
  out.components = words(get("components"));
  out.signed_by = get("signed-by");
  out.trusted = lower(get("trusted")) == "yes";
  return out;
}

bool is_debian_uri(std::string_view uri) {
  const std::string text = lower(uri);
  for (std::size_t at = text.find('/'); at != std::string::npos; at = text.find('/', at + 1)) {
    if (text.compare(at + 1, 6, "debian") == 0 && at > text.find(':') + 2) return true;
  }
  return false;
}

}  // namespace

std::vector<AptSource> parse_one_line_sources(std::string_view text) {
  std::vector<AptSource> out;
  for (const auto& line : lines(text)) {
    AptSource source;
    if (parse_line(line, source)) out.push_back(std::move(source));
  }
  return out;
}

std::vector<AptSource> parse_deb822_sources(std::string_view text) {
  std::vector<AptSource> out;
  std::map<std::string, std::string> fields;
  std::string current;
  const auto end_stanza = [&] {
    AptSource source = from_fields(fields);
    if (!source.uris.empty() && !source.suites.empty()) out.push_back(std::move(source));
    fields.clear();
    current.clear();
  };
  for (const auto& line : lines(text)) {
    if (line.starts_with('#')) continue;
    if (words(line).empty()) {
      end_stanza();
    } else if (line[0] == ' ' || line[0] == '\t') {
      if (!current.empty()) fields[current] += "\n" + line;
    } else if (const std::size_t colon = line.find(':'); colon != std::string::npos) {
      current = lower(line.substr(0, colon));
      const std::size_t value = line.find_first_not_of(" \t", colon + 1);
      fields[current] = value == std::string::npos ? "" : line.substr(value);
    }
  }
  end_stanza();
  return out;
}

std::vector<AptSource> select_debian(const std::vector<AptSource>& all, std::string_view suite) {
  std::vector<AptSource> out;
  for (const AptSource& source : all) {
    AptSource kept = source;
    std::erase_if(kept.suites, [&](const std::string& s) {
      return s != suite && s != fmt::format("{}-updates", suite) && s != fmt::format("{}-security", suite);
    });
    std::erase_if(kept.uris, [](const std::string& uri) { return !is_debian_uri(uri); });
    const bool inline_key = source.signed_by.find('\n') != std::string::npos;
    const bool other_key =
        !source.signed_by.empty() && !inline_key && source.signed_by.find("debian") == std::string::npos;
    if (kept.suites.empty() || kept.uris.empty() || other_key || !has(source.components, "main")) continue;
    kept.components = {"main"};
    if (std::find(out.begin(), out.end(), kept) == out.end()) out.push_back(std::move(kept));
  }
  const bool complete =
      std::any_of(out.begin(), out.end(), [&](const AptSource& s) { return has(s.suites, suite); });
  return complete ? out : std::vector<AptSource>();
}

std::string to_deb822(const std::vector<AptSource>& sources) {
  std::string out;
  for (const AptSource& source : sources) {
    if (!out.empty()) out += "\n";
    out += fmt::format("Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\n", joined(source.uris),
                       joined(source.suites), joined(source.components));
    if (!source.signed_by.empty()) out += fmt::format("Signed-By: {}\n", source.signed_by);
    if (source.trusted) out += "Trusted: yes\n";
  }
  return out;
}

Result<std::string> debian_sources(const std::string& etc_apt, std::string_view suite) {
  std::vector<AptSource> all;
  const auto add = [&](std::vector<AptSource> more) { all.insert(all.end(), more.begin(), more.end()); };
  if (os::exists(etc_apt + "/sources.list")) {
    SPACE_TRY(const std::string text, os::read_file(etc_apt + "/sources.list"));
    add(parse_one_line_sources(text));
  }
  const std::string parts = etc_apt + "/sources.list.d";
  if (os::exists(parts)) {
    SPACE_TRY(const auto names, os::list_directory(parts));
    for (const auto& name : names) {
      if (!name.ends_with(".list") && !name.ends_with(".sources")) continue;
      SPACE_TRY(const std::string text, os::read_file(parts + "/" + name));
      add(name.ends_with(".list") ? parse_one_line_sources(text) : parse_deb822_sources(text));
    }
  }
  const auto chosen = select_debian(all, suite);
  if (chosen.empty()) {
    return make_error(
        Code::kFailedPrecondition, "template.no_sources",
        fmt::format("{} has no Debian source with suite {} and component main; add one, or name a file of "
                    "sources with --apt-sources",
                    etc_apt, suite));
  }
  return to_deb822(chosen);
}

std::string transport_settings(std::string_view dump) {
  static constexpr std::string_view kWanted[] = {"Acquire::http::Proxy",       "Acquire::https::Proxy",
                                                 "Acquire::http::Timeout",     "Acquire::https::Timeout",
                                                 "Acquire::Check-Valid-Until", "Acquire::Check-Date",
                                                 "Acquire::Retries",           "Acquire::ForceIPv4"};
  std::string out;
  for (const auto& line : lines(dump)) {
    const std::string key = line.substr(0, line.find(' '));
    const bool wanted = std::any_of(std::begin(kWanted), std::end(kWanted), [&](std::string_view name) {
      // Also Acquire::http::Proxy::some.host
      return lower(key) == lower(name) || lower(key).starts_with(lower(name) + "::");
    });
    if (wanted && line.find(" \"\";") == std::string::npos) out += line + "\n";
  }
  return out;
}

}  // namespace space::node::tmpl
