// SPDX-License-Identifier: Apache-2.0
#include "bench/command.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "bench/figures.h"
#include "lib/http/client/websocket.h"

namespace space::bench {
namespace {
constexpr std::size_t kMaxKeptOutput = 64u << 10;
}

boost::json::object command(std::initializer_list<boost::json::string_view> argv) {
  boost::json::array words;
  for (auto word : argv) words.push_back(boost::json::value(word));
  boost::json::object request;
  request["argv"] = std::move(words);
  return request;
}

async::Task<Result<Ran>> run_command(cli::Api& api, std::string session, boost::json::object request) {
  auto start = std::chrono::steady_clock::now();
  SPACE_CO_TRY(auto upgrade, co_await api.client().upgrade("/v1" + cli::session_target(session) + "/exec"));
  if (!upgrade.socket) co_return cli::Api::error_from(upgrade.declined);
  std::string text = boost::json::serialize(request);
  SPACE_CO_CHECK_OK(co_await upgrade.socket->send_text(text));
  Ran ran;
  for (;;) {
    SPACE_CO_TRY(auto message, co_await upgrade.socket->read());
    if (!message)
      co_return make_error(Code::kDataLoss, "bench.broken_stream",
                           "a command's stream ended without an exit");
    if (message->binary) {
      ByteView data = message->data.subspan(1);  // behind the channel
      ran.bytes += data.size();
      if (ran.output.size() < kMaxKeptOutput)
        ran.output += as_text(data.first(std::min(data.size(), kMaxKeptOutput - ran.output.size())));
      continue;
    }
    auto event = boost::json::parse(as_text(message->data));
    std::string type = cli::text_of(event, "type");
    if (type == "error") co_return cli::Api::error_from(*cli::member(event, "error"));
    if (type != "exited") continue;
    if (cli::number_of(event, "exit_code", -1) != 0) {
      co_return make_error(Code::kInternal, "bench.command_failed",
                           "a command failed: " + escape(ran.output));
    }
    ran.ms = ms_since(start);
    co_await upgrade.socket->close();
    co_return ran;
  }
}

}  // namespace space::bench
