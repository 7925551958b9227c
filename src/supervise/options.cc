// SPDX-License-Identifier: Apache-2.0
#include "supervise/options.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>
#include <variant>

#include "lib/base/bytes.h"
#include "lib/base/size.h"
#include "lib/os/file.h"

namespace space::supervise {
namespace {

using Text = std::string Options::*;
using List = std::vector<std::string> Options::*;
using Number = std::uint64_t Options::*;

enum class Unit : std::uint8_t { kNone, kBytes };

struct Row {
  const char* section;
  const char* key;
  const char* flag;
  std::variant<Text, List, Number> field;
  const char* help;  // for people; "\n" starts a new line of comment
  std::vector<const char*> choices = {};
  Unit unit = Unit::kNone;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"server", "data", "--data", &Options::data,
       "Directory that holds everything: sessions, templates, keys, logs.\nMade when it isn't there. May be "
       "readable by root only."},
      {"server", "listen", "--listen", &Options::listen,
       "HOST:PORT of the API; port 0 takes any free one. The API is plain HTTP:\nleave it on loopback unless "
       "the network is trusted."},
      {"server", "url", "--url", &Options::url,
       "The server's URL as its users see it. Empty: made from the address it listens on."},
      {"server",
       "min_free",
       "--min-free",
       &Options::min_free,
       "Refuse to start with less free disk space than this at `data`.",
       {},
       Unit::kBytes},
      {"node", "templates", "--templates", &Options::templates,
       "More directories with built templates, searched first. Always searched: those\nbeside the programs, "
       "and `data`/node/templates."},
      {"node", "recipes", "--recipes", &Options::recipes,
       "Directory of template recipes. Empty: the one that came with the programs."},
      {"node",
       "accel",
       "--accel",
       &Options::accel,
       "auto, kvm or tcg. auto uses KVM when a tiny guest really runs at native speed, else\nsoftware "
       "emulation (TCG).",
       {"auto", "kvm", "tcg"}},
      {"node",
       "backend",
       "--backend",
       &Options::backend,
       "qemu; or fake, which runs no virtual machines and is for tests alone.",
       {"qemu", "fake"}},
      {"node", "uid_base", "--uid-base", &Options::uid_base,
       "First of 16384 user ids that are the platform's alone. 0: derived from the node's id,\nat 2^30 and "
       "above."},
      {"programs", "bin", "--bindir", &Options::bin,
       "Directory of space-control, space-node and space-link. Empty: beside this program."},
      {"log",
       "level",
       "--log-level",
       &Options::log_level,
       "debug, info, warning or error: what goes to `data`/log.",
       {"debug", "info", "warning", "error"}},
  };
  return kRows;
}

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "supervise.usage", message);
}

Result<void> set_number(Options& options, const Row& row, Number field, const std::string& text) {
  if (row.unit == Unit::kBytes) {
    SPACE_TRY(options.*field, parse_size(text));
    return {};
  }
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return usage("must be a number, not \"" + escape(text) + "\"");
  options.*field = value;
  return {};
}

// One value for a row; a list grows by it.
Result<void> set(Options& options, const Row& row, const std::string& text) {
  if (text.find('\0') != std::string::npos || text.find('\n') != std::string::npos)
    return usage("must be one line of text");
  if (!row.choices.empty() && std::none_of(row.choices.begin(), row.choices.end(),
                                           [&](const char* choice) { return text == choice; })) {
    std::string all;
    for (const char* choice : row.choices) all += (all.empty() ? "" : ", ") + std::string(choice);
    return usage("must be one of " + all + ", not \"" + escape(text) + "\"");
  }
  if (const auto* number = std::get_if<Number>(&row.field)) return set_number(options, row, *number, text);
  if (const auto* list = std::get_if<List>(&row.field)) {
    (options.*(*list)).push_back(text);
  } else {
    options.*std::get<Text>(row.field) = text;
  }
  return {};
}

void clear_list(Options& options, const Row& row) {
  if (const auto* list = std::get_if<List>(&row.field)) (options.*(*list)).clear();
}

Result<void> set_from_node(Options& options, const Row& row, const toml::node& node) {
  clear_list(options, row);
  if (const auto* array = node.as_array()) {
    if (!std::holds_alternative<List>(row.field)) return usage("must be one value, not a list");
    for (const auto& item : *array) {
      auto text = item.value<std::string>();
      if (!text) return usage("must be a list of strings");
      SPACE_CHECK_OK(set(options, row, *text));
    }
    return {};
  }
  if (const auto* number = node.as_integer()) {
    if (!std::holds_alternative<Number>(row.field) || number->get() < 0) return usage("must be text");
    return set(options, row, std::to_string(number->get()));
  }
  auto text = node.value<std::string>();
  if (!text) return usage("must be text or a number");
  return set(options, row, *text);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string value_of(const Options& options, const Row& row) {
  if (const auto* number = std::get_if<Number>(&row.field)) {
    return row.unit == Unit::kBytes ? quoted(format_size(options.*(*number)))
                                    : std::to_string(options.*(*number));
  }
  if (const auto* list = std::get_if<List>(&row.field)) {
    std::string out = "[";
    for (const auto& item : options.*(*list)) out += (out.size() > 1 ? ", " : "") + quoted(item);
    return out + "]";
  }
  return quoted(options.*std::get<Text>(row.field));
}

std::string as_help(const char* help) {
  std::string text(help);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Result<void> read_config(const std::string& path, Options& options) {
  SPACE_TRY(std::string text, os::read_file(path, 1u << 20));
  auto bad = [&](auto line, const std::string& what) {
    return make_error(Code::kInvalidArgument, "supervise.config",
                      path + ":" + std::to_string(line) + ": " + what);
  };
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) return bad(parsed.error().source().begin.line, std::string(parsed.error().description()));
  for (auto&& [section, node] : parsed.table()) {
    const auto* table = node.as_table();
    if (table == nullptr)
      return bad(node.source().begin.line,
                 "\"" + escape(section.str()) + "\" must stand in a section such as [server]");
    for (auto&& [key, value] : *table) {
      auto row = std::find_if(rows().begin(), rows().end(),
                              [&](const Row& r) { return section.str() == r.section && key.str() == r.key; });
      std::string name = "[" + escape(section.str()) + "] " + escape(key.str());
      if (row == rows().end())
        return bad(value.source().begin.line,
                   "unknown option " + name + "; space up --print-config lists all");
      if (auto done = set_from_node(options, *row, value); !done.ok())
        return bad(value.source().begin.line, name + " " + done.error().message);
    }
  }
  return {};
}

std::string print_config(const Options& options) {
  std::string out =
      "# space.toml: configuration of `space up`. Options of the command line win over this file.\n";
  std::string section;
  for (const auto& row : rows()) {
    if (section != row.section) {
      section = row.section;
      out += "\n[" + section + "]\n";
    } else {
      out += "\n";
    }
    std::istringstream lines(row.help);
    for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
    out +=
        "# Command line: " + std::string(row.flag) + "\n" + row.key + " = " + value_of(options, row) + "\n";
  }
  return out;
}

Result<Request> parse_arguments(const std::vector<std::string>& arguments) {
  Request request;
  std::string config;
  bool print = false;
  CLI::App app("Start the platform on this machine and keep it running until SIGTERM or SIGINT.", "space up");
  app.footer(
      "Prints \"ready URL\" on standard output once it serves. The first API key is in admin.key of the data "
      "directory.");
  app.add_option("--config", config,
                 "Configuration file (default: " + std::string(kDefaultConfig) + " when it is there)");
  app.add_flag("--print-config", print,
               "Print the configuration that results, as a file with every option explained");
  std::vector<std::vector<std::string>> given(rows().size());
  for (std::size_t i = 0; i < rows().size(); ++i) {
    app.add_option(rows()[i].flag, given[i], as_help(rows()[i].help))
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all()
        ->type_name("");
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    request.action = Request::Action::kHelp;
    request.text = app.help();
    return request;
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  if (!config.empty() || os::exists(kDefaultConfig))
    SPACE_CHECK_OK(read_config(config.empty() ? kDefaultConfig : config, request.options));
  for (std::size_t i = 0; i < rows().size(); ++i) {
    if (!given[i].empty()) clear_list(request.options, rows()[i]);
    for (const auto& text : given[i]) {
      if (auto done = set(request.options, rows()[i], text); !done.ok())
        return usage(std::string(rows()[i].flag) + " " + done.error().message);
    }
  }
  if (print) {
    request.action = Request::Action::kPrintConfig;
    request.text = print_config(request.options);
  }
  return request;
}

}  // namespace space::supervise
