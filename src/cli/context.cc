// SPDX-License-Identifier: Apache-2.0
#include "cli/context.h"

#include <boost/json/serialize.hpp>

#include "cli/exit_code.h"
#include "cli/printable.h"
#include "lib/os/file.h"

namespace space::cli {
namespace {

std::string advice(const Error& error, const std::string& url) {
  if (error.reason == "http.connection_refused") {
    return "is the server running? Start it with: space up --data DIR --listen HOST:PORT\n"
           "or name another one: SPACE_URL=http://HOST:PORT (now " +
           url + ")";
  }
  if (error.reason == "http.unreachable") return "check the address: SPACE_URL or --url (now " + url + ")";
  if (error.code == Code::kUnauthenticated) {
    return "give a key in SPACE_KEY or with --key-file; the first one is in admin.key of the server's data "
           "directory";
  }
  if (error.reason == "cli.usage") return "see: space --help";
  if (error.retryable()) return "trying again may help";
  return {};
}

void put(int fd, std::string_view text) {
  os::write_all(fd, as_bytes(text)).ignore("nobody is there to read it");
}

}  // namespace

void Context::print(std::string_view text) const {
  put(world.stdio.out, text);
}
void Context::print(const boost::json::value& value) const {
  put(world.stdio.out, boost::json::serialize(value) + "\n");
}
void Context::note(std::string_view text) const {
  put(world.stdio.err, "space: " + printable(text) + "\n");
}
int Context::fail(const Error& error) const {
  return report(world.stdio, error, api.client().endpoint().url());
}

int report(const Stdio& stdio, const Error& error, const std::string& url) {
  std::string text = "space: ";
  if (!error.field.empty()) text += printable(error.field) + ": ";
  text += printable(error.message);
  if (!error.reason.empty() && error.reason != "cli.usage") text += " (" + printable(error.reason) + ")";
  std::string next = advice(error, url);
  for (std::size_t at = 0; !next.empty() && at != std::string::npos;) {
    auto end = next.find('\n', at);
    text += "\n       " + next.substr(at, end - at);
    at = end == std::string::npos ? end : end + 1;
  }
  put(stdio.err, text + "\n");
  return exit_code_of(error);
}

}  // namespace space::cli
