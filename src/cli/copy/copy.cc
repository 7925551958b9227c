// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/copy.h"

#include <fmt/format.h>

#include <charconv>

namespace space::cli::copy {

void Copy::skip(const std::string& name, const std::string& why) {
  progress.clear();
  context.note("skipped " + name + ": " + why);
  ++summary.skipped;
}

std::string octal(unsigned mode) {
  return fmt::format("{:04o}", mode & 0777U);
}

std::string files_target(const std::string& session, const std::string& operation,
                         const std::vector<std::pair<std::string, std::string>>& parameters) {
  return session_target(session) + "/files" + operation + http::client::query(parameters);
}

RemoteInfo remote_info(const boost::json::value& file) {
  RemoteInfo info;
  info.kind = text_of(file, "kind");
  info.size = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(file, "size")));
  std::string mode = text_of(file, "mode");
  unsigned bits = 0;
  auto [end, error] = std::from_chars(mode.data(), mode.data() + mode.size(), bits, 8);
  if (error == std::errc() && end == mode.data() + mode.size()) info.mode = bits & 0777U;
  return info;
}

async::Task<Result<std::optional<RemoteInfo>>> remote_stat(Context& context, const std::string& session,
                                                           const std::string& path) {
  auto found = co_await context.api.get(files_target(session, "/stat", {{"path", path}, {"follow", "true"}}));
  if (!found.ok() && found.error().reason == "guest.no_such_file") co_return std::optional<RemoteInfo>();
  if (!found.ok()) co_return std::move(found).error();
  co_return std::optional(remote_info(*found));
}

}  // namespace space::cli::copy
