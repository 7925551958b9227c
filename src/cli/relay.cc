// SPDX-License-Identifier: Apache-2.0
#include "cli/relay.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>

#include "cli/escape_keys.h"
#include "cli/exit_code.h"
#include "cli/printable.h"
#include "cli/terminal.h"
#include "lib/async/task_scope.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;
using http::client::WebSocket;

namespace {

constexpr std::size_t kInputChunk = 64u << 10;
constexpr int kInterruptsToKill = 2;

std::string resize_frame(TerminalSize size) {
  return json::serialize(json::object{{"type", "resize"}, {"rows", size.rows}, {"cols", size.cols}});
}
std::string signal_frame(int number) {
  return json::serialize(json::object{{"type", "signal"}, {"signal", number}});
}

// Resource type; lives for one command.
class Relay {
 public:
  Relay(Context& context, RelayPlan plan)
      : context_(context),
        plan_(std::move(plan)),
        command_(plan_.command),
        input_(context.pool, context.world.stdio.in),
        output_(context.pool),
        signals_(context.loop, SIGINT, SIGTERM, SIGHUP),
        scope_(context.loop.get_executor()) {
    signals_.add(SIGWINCH);
    signals_.add(SIGCONT);
  }

  Task<int> run() {
    int code = co_await serve();
    raw_.reset();
    input_.stop();
    signals_.cancel();
    co_await scope_.stop();
    co_return code;
  }

 private:
  Task<int> serve() {
    scope_.spawn(handle_signals());
    auto upgrade = co_await context_.api.client().upgrade("/v1" + plan_.target);
    if (!upgrade.ok()) co_return failed(upgrade.error());
    if (upgrade->socket == nullptr) co_return failed(Api::error_from(upgrade->declined));
    socket_ = std::move(upgrade->socket);
    if (!plan_.first_frame.empty()) {
      if (auto sent = co_await socket_->send_text(plan_.first_frame); !sent.ok())
        co_return failed(sent.error());
    }
    for (;;) {
      auto message = co_await socket_->read();
      if (leave_code_) co_return *leave_code_;
      if (!message.ok()) co_return broken(message.error());
      if (!message->has_value()) {
        co_return broken(make_error(Code::kUnavailable, "cli.no_exit",
                                    "the server ended the stream before the command's end was known"));
      }
      if ((*message)->binary) {
        co_await show((*message)->data);
        continue;
      }
      auto frame = Api::parse(as_text((*message)->data));
      if (!frame.ok()) co_return broken(frame.error());
      if (auto code = take(*frame)) {
        co_await socket_->close();
        co_return *code;
      }
    }
  }

  // A text frame; the exit code when it was the last one.
  std::optional<int> take(const json::value& frame) {
    std::string type = text_of(frame, "type");
    if (type == "started" || type == "attached") {
      begin(frame);
      return std::nullopt;
    }
    if (type == "exited") return ended(frame);
    if (type == "error") {
      const auto* error = member(frame, "error");
      return failed(Api::error_from(error == nullptr ? json::value() : *error));
    }
    return std::nullopt;  // of a newer server
  }

  void begin(const json::value& frame) {
    if (auto id = text_of(frame, "command_id"); !id.empty()) command_ = id;
    if (auto lost = number_of(frame, "stdout_from") + number_of(frame, "stderr_from"); lost > 0) {
      context_.note("the first " + std::to_string(lost) + " bytes of output are no longer kept");
    }
    started_ = true;
    bool typed = ::isatty(context_.world.stdio.in) == 1;
    if (flag_of(frame, "pty") && typed) {  // an attachment to a terminal is for typing
      plan_.screen = Screen::kTerminal;
      plan_.input = Input::kForward;
    }
    bool terminal_input = plan_.screen == Screen::kTerminal && typed && plan_.input == Input::kForward;
    if (terminal_input) {
      raw_.emplace(context_.world.stdio.in);
      scope_.spawn(resize());
    }
    if (plan_.input == Input::kForward) scope_.spawn(forward_input(terminal_input));
  }

  int ended(const json::value& frame) {
    CommandEnd end;
    end.exit_code = static_cast<int>(number_of(frame, "exit_code", -1));
    end.signal = static_cast<int>(number_of(frame, "signal"));
    end.timed_out = flag_of(frame, "timed_out");
    end.out_of_memory = flag_of(frame, "out_of_memory");
    raw_.reset();
    if (end.timed_out) context_.note("the command ran into its timeout and was killed");
    if (end.out_of_memory) context_.note("the command was killed because the session ran out of memory");
    int code = exit_code_of(end);
    if (output_error_) return report(context_.world.stdio, *output_error_), kUnknown;
    if (code == kUnknown && end.exit_code != kUnknown)
      context_.note("the server didn't say how the command ended");
    return code;
  }

  // Platform trouble in place of a command's end.
  int failed(const Error& error) {
    raw_.reset();
    context_.fail(error);
    return exit_code_of_failed_command(error);
  }

  int broken(const Error& error) {
    raw_.reset();
    context_.fail(error);
    if (started_ && !command_.empty()) {
      context_.note("the command may still be running; to reconnect: space command attach " + plan_.session +
                    " " + command_);
    }
    return kUnknown;
  }

  Task<void> show(ByteView frame) {
    if (frame.empty() || output_gone_) co_return;
    int fd = frame[0] == std::byte{2} ? context_.world.stdio.err : context_.world.stdio.out;
    auto written = co_await output_.write(fd, frame.subspan(1));
    if (written.ok()) co_return;
    // Nobody takes the output any more: the command learns it as it would from a pipe.
    output_gone_ = true;
    if (written.error().code != Code::kUnavailable) output_error_ = written.error();
    scope_.spawn(send_signal(SIGPIPE));
  }

  Task<void> forward_input(bool terminal) {
    std::vector<std::byte> buffer(kInputChunk + 1);
    EscapeKeys keys;
    for (;;) {
      auto got = co_await input_.read(std::span(buffer).subspan(1));
      if (!got.ok()) context_.note(got.error().message);
      if (!got.ok() || *got == 0) break;
      ByteView data(buffer.data(), *got + 1);
      buffer[0] = std::byte{0};
      std::string typed;
      if (terminal) {
        auto out = keys.feed(as_text(data.subspan(1)));
        if (out.leave) co_return leave(kOk, "left; the command runs on");
        typed = std::string(1, '\0') + out.bytes;
        data = as_bytes(typed);
        if (typed.size() == 1) continue;
      }
      if (!(co_await socket_->send_binary(data)).ok()) co_return;  // the reader sees it too
    }
    (co_await socket_->send_text(R"({"type":"stdin_end"})")).ignore("the reader sees it too");
  }

  Task<void> resize() {
    auto size = terminal_size(context_.world.stdio.in, context_.world.stdio.out);
    (co_await socket_->send_text(resize_frame(size))).ignore("the reader sees it too");
  }

  Task<void> send_signal(int number) {
    // Behind input that the command doesn't take, a frame would wait for ever; a request of its own doesn't.
    if (socket_->sending() && !command_.empty()) {
      auto sent = co_await context_.api.change(
          "POST",
          session_target(plan_.session) + "/commands/" + http::client::percent_encode(command_) + "/signal",
          json::object{{"signal", number}});
      sent.ignore("the command may just have ended");
    } else {
      (co_await socket_->send_text(signal_frame(number))).ignore("the reader sees it too");
    }
  }

  Task<void> handle_signals() {
    int interrupts = 0;
    for (;;) {
      int number = co_await signals_.async_wait(boost::asio::use_awaitable);
      if (number == SIGWINCH || number == SIGCONT) {
        if (number == SIGCONT && raw_) raw_->again();
        if (raw_) scope_.spawn(resize());
        continue;
      }
      if (number == SIGHUP) {
        leave(128 + SIGHUP, "");
        continue;
      }
      if (!started_ || ++interrupts > kInterruptsToKill) {
        raw_.reset();
        ::_exit(128 + number);
      }
      scope_.spawn(send_signal(interrupts == kInterruptsToKill ? SIGKILL : number));
    }
  }

  void leave(int code, const std::string& note) {
    raw_.reset();
    if (!note.empty() && !command_.empty()) {
      context_.note(note + "; to reconnect: space command attach " + plan_.session + " " + command_);
    }
    leave_code_ = code;
    if (socket_ != nullptr) scope_.spawn(socket_->close());
  }

  Context& context_;
  RelayPlan plan_;
  std::string command_;
  InputReader input_;
  OutputWriter output_;
  boost::asio::signal_set signals_;
  std::unique_ptr<WebSocket> socket_;
  std::optional<RawMode> raw_;
  std::optional<int> leave_code_;
  std::optional<Error> output_error_;
  bool started_ = false;
  bool output_gone_ = false;
  async::TaskScope scope_;  // last: its tasks use the rest
};

}  // namespace

Task<int> relay(Context& context, RelayPlan plan) {
  Relay relay(context, std::move(plan));
  co_return co_await relay.run();
}

bool carries_input(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 &&
         (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || S_ISREG(info.st_mode));
}

}  // namespace space::cli
