// SPDX-License-Identifier: Apache-2.0
#include "tests/testkit/platform/fake_guest.h"

#include <algorithm>

#include "lib/wire/message.h"

namespace space::testkit {
namespace {

template <class Body>
async::Task<void> say(rpc::Call& call, Body body) {
  (co_await call.send_message(wire::pack_body<guestapi::ReplyT>(std::move(body))))
      .ignore("the client may have left");
}

async::Task<bool> put(rpc::Call& call, FakeCommand& command, std::uint8_t channel, std::string text) {
  std::string& kept = channel == 1 ? command.stdout_bytes : command.stderr_bytes;
  (channel == 1 ? command.info.stdout_bytes : command.info.stderr_bytes) += text.size();
  if (kept.size() < (1u << 20)) kept += text;
  co_return (co_await call.send_data(channel, as_bytes(text))).ok();
}

std::string words(const std::vector<std::string>& argv) {
  std::string text;
  for (std::size_t i = 1; i < argv.size(); ++i) text += (i > 1 ? " " : "") + argv[i];
  return text + "\n";
}

std::uint64_t number(const std::string& text) {
  return std::strtoull(text.c_str(), nullptr, 10);
}

void exited(FakeCommand& command, int code, int signal) {
  command.info.running = false;
  command.info.exit = std::make_unique<guestapi::ExitedT>();
  command.info.exit->exit_code = signal != 0 ? -1 : code;
  command.info.exit->signal = signal;
  command.info.exit->duration_ms = 5;
}

// Until a signal (returned), the end of stdin for `cat`, or the client's leaving (-1).
async::Task<int> converse(rpc::Call& call, FakeCommand& command, FakeSandbox& sandbox) {
  bool is_cat = command.info.argv[0] == "cat";
  for (;;) {
    auto event = co_await call.next();
    if (!event.ok()) co_return -1;
    if (auto* data = std::get_if<rpc::Data>(&*event)) {
      if (is_cat && !co_await put(call, command, 1, to_text(data->bytes))) co_return -1;
    }
    if (auto* message = std::get_if<rpc::Message>(&*event)) {
      auto control = wire::unpack<guestapi::ControlT>(message->bytes);
      if (!control.ok()) co_return -1;
      if (auto* signal = control->body.AsSignal()) {
        sandbox.received_signals.push_back(std::to_string(signal->signal));
        co_return signal->signal;
      }
      if (auto* resize = control->body.AsResize()) {
        co_await put(call, command, 1,
                     std::to_string(resize->rows) + "x" + std::to_string(resize->cols) + "\n");
      }
    }
    if (std::holds_alternative<rpc::End>(*event) && is_cat) co_return 0;
  }
}

async::Task<void> exec(rpc::Call& call, const guestapi::ExecT& request,
                       std::shared_ptr<FakeSandbox> sandbox) {
  const std::string& what = request.argv[0];
  if (sandbox->commands.contains(request.command_id)) {
    co_return call.finish(
        make_error(Code::kAlreadyExists, "guest.command_exists", "there is such a command"));
  }
  if (what == "missing")
    co_return call.finish(make_error(Code::kNotFound, "guest.command_not_found", "no command \xff"));
  auto command = std::make_shared<FakeCommand>();
  command->info.command_id = request.command_id;
  command->info.argv = request.argv;
  command->info.pid = 4242;
  command->info.running = true;
  command->info.pty = request.pty != nullptr;
  command->info.started_ms = 1'750'000'000'000;
  sandbox->commands[request.command_id] = command;
  guestapi::StartedT started;
  started.pid = command->info.pid;
  co_await say(call, started);
  if (request.detached) {
    if (what != "sleep") exited(*command, 0, 0);
    co_return call.finish({});
  }
  int code = 0;
  int signal = 0;
  if (what == "exit") code = static_cast<int>(number(request.argv.at(1)));
  if (what == "signal") signal = static_cast<int>(number(request.argv.at(1)));
  if (what == "echo") co_await put(call, *command, 1, words(request.argv));
  if (what == "err") co_await put(call, *command, 2, words(request.argv));
  if (what == "env") {
    std::string text = request.cwd + "|" + request.user + "|" + std::to_string(request.timeout_ms);
    for (const auto& variable : request.env) text += "|" + variable->name + "=" + variable->value;
    co_await put(call, *command, 1, text);
  }
  if (what == "bytes") {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    co_await put(call, *command, 1, all);
  }
  if (what == "flood") {
    std::string block(32u << 10, 'f');
    for (std::uint64_t left = number(request.argv.at(1)); left > 0;) {
      auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, block.size()));
      if (!(co_await call.send_data(1, as_bytes(std::string_view(block).substr(0, size)))).ok()) co_return;
      left -= size;
    }
  }
  if (what == "hostile") {
    (co_await call.send_data(7, as_bytes("?"))).ignore("test");
  }
  if (what == "drop") co_return call.reset();
  if (what == "cat" || what == "sleep" || what == "pty") {
    int ended = co_await converse(call, *command, *sandbox);
    if (ended < 0) co_return;  // goes on without anybody listening
    signal = ended;
  }
  if (what == "no_exit") co_return call.finish({});
  exited(*command, code, signal);
  co_await say(call, *command->info.exit);
  call.finish({});
}

async::Task<void> attach(rpc::Call& call, const guestapi::AttachT& request,
                         std::shared_ptr<FakeSandbox> sandbox) {
  auto found = sandbox->commands.find(request.command_id);
  if (found == sandbox->commands.end())
    co_return call.finish(make_error(Code::kNotFound, "guest.no_such_command", "no such command"));
  auto command = found->second;
  guestapi::AttachedT attached;
  attached.pid = command->info.pid;
  attached.pty = command->info.pty;
  attached.stdout_from = std::min<std::uint64_t>(request.stdout_from, command->stdout_bytes.size());
  attached.stderr_from = std::min<std::uint64_t>(request.stderr_from, command->stderr_bytes.size());
  co_await say(call, attached);
  std::string out = command->stdout_bytes.substr(attached.stdout_from);
  if (!out.empty()) (co_await call.send_data(1, as_bytes(out))).ignore("test");
  if (command->info.running) {
    int signal = co_await converse(call, *command, *sandbox);
    if (signal < 0) co_return;
    exited(*command, 0, signal);
  }
  co_await say(call, *command->info.exit);
  call.finish({});
}

guestapi::FileInfoT info_of(const std::string& path, std::uint64_t size) {
  guestapi::FileInfoT info;
  info.path = path;
  info.kind = guestapi::FileKind::Regular;
  info.size = size;
  info.mode = 0644;
  info.modified_ms = 1'750'000'000'000;
  return info;
}

async::Task<void> read_file(rpc::Call& call, const guestapi::ReadFileT& request, FakeSandbox& sandbox) {
  std::uint64_t says = 0;
  std::uint64_t has = 0;
  const std::string* content = nullptr;
  auto found = sandbox.files.find(request.path);
  if (request.path.starts_with("/zeros/")) {
    says = has = number(request.path.substr(7));
  } else if (request.path == "/shrunk") {
    says = 1000;
    has = 10;
  } else if (request.path == "/grown") {
    says = 10;
    has = 1000;
  } else if (request.path == "/proc/x") {
    has = 5;
  } else if (found != sandbox.files.end()) {
    content = &found->second.content;
    says = has = content->size();
  } else {
    co_return call.finish(make_error(Code::kNotFound, "guest.no_such_file", "no such file"));
  }
  co_await say(call, info_of(request.path, says));
  std::uint64_t end = request.length == 0 ? has : std::min(has, request.offset + request.length);
  for (std::uint64_t at = request.offset; at < end;) {
    auto size = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, 32u << 10));
    std::string block = content != nullptr ? content->substr(at, size) : std::string(size, '\0');
    if (!(co_await call.send_data(1, as_bytes(block))).ok()) co_return;
    at += size;
  }
  call.finish({});
}

async::Task<void> write_file(rpc::Call& call, const guestapi::WriteFileT& request, FakeSandbox& sandbox) {
  constexpr std::size_t kKept = 8u << 20;
  FakeFile file;
  if (request.in_place) {
    file = sandbox.files[request.path];
    file.content.resize(request.offset);
    file.size = request.offset;
  }
  file.mode = request.mode;
  file.sum = fnv1a({});
  for (;;) {
    auto event = co_await call.next();
    if (!event.ok()) co_return;  // as it was
    if (auto* data = std::get_if<rpc::Data>(&*event)) {
      file.size += data->bytes.size();
      file.sum = fnv1a(data->bytes, file.sum);
      if (file.content.size() < kKept) file.content += as_text(data->bytes);
      if (request.path == "/full" && file.size > (1u << 20)) {
        co_return call.finish(
            make_error(Code::kResourceExhausted, "guest.disk_full", "no space left in the sandbox"));
      }
    }
    if (std::holds_alternative<rpc::End>(*event)) break;
  }
  auto info = info_of(request.path, file.size);
  info.mode = request.mode;
  // For the test to compare without reading back.
  info.uid = static_cast<std::uint32_t>(file.sum);
  sandbox.files[request.path] = std::move(file);
  co_await say(call, info);
  call.finish({});
}

async::Task<void> list_directory(rpc::Call& call, const std::string& path, FakeSandbox& sandbox) {
  guestapi::DirectoryPageT page;
  auto add = [&page](const std::string& name) {
    page.entries.push_back(std::make_unique<guestapi::FileInfoT>(info_of(name, 1)));
  };
  if (path == "/hostile") {
    add(std::string("a\xff\xfe\xe2\x82"));
    add("b\n\"\\");
    add("c\xed\xa0\x80");
  } else if (path.starts_with("/big/")) {
    for (std::uint64_t i = 0, count = number(path.substr(5)); i < count; ++i) {
      add("file" + std::to_string(i));
      if (page.entries.size() == 100) {
        co_await say(call, std::move(page));
        page = {};
      }
    }
  } else if (path == "/missing") {
    co_return call.finish(make_error(Code::kNotFound, "guest.no_such_file", "no such directory"));
  } else {
    for (const auto& [name, file] : sandbox.files) add(name);
  }
  if (!page.entries.empty()) co_await say(call, std::move(page));
  call.finish({});
}

async::Task<void> connect(rpc::Call& call, std::uint16_t port) {
  if (port != 7 && port != 8)
    co_return call.finish(make_error(Code::kUnavailable, "guest.connection_refused", "nobody listens"));
  co_await say(call, guestapi::ConnectedT());
  if (port == 8) {
    (co_await call.send_data(1, as_bytes("hello"))).ignore("test");
    co_return call.finish({});
  }
  for (;;) {
    auto event = co_await call.next();
    if (!event.ok()) co_return;
    if (auto* data = std::get_if<rpc::Data>(&*event))
      (co_await call.send_data(1, data->bytes)).ignore("test");
    if (std::holds_alternative<rpc::End>(*event)) break;
  }
  call.finish({});
}

async::Task<void> watch(rpc::Call& call) {
  co_await say(call, guestapi::WatchingT());
  guestapi::WatchEventT event;
  event.kind = guestapi::WatchKind::Created;
  event.path = "/w/new\xff";
  event.directory = true;
  co_await say(call, event);
  (co_await call.next()).ignore("until the client leaves");
}

}  // namespace

async::Task<void> serve_guest_call(rpc::Call& call, const Bytes& packed,
                                   std::shared_ptr<FakeSandbox> sandbox) {
  auto request = wire::unpack<guestapi::RequestT>(packed);
  if (!request.ok()) co_return call.finish(request.error());
  auto& body = request->body;
  auto no_such_file = [] { return make_error(Code::kNotFound, "guest.no_such_file", "no such file"); };
  if (auto* wanted = body.AsExec()) co_return co_await exec(call, *wanted, sandbox);
  if (auto* wanted = body.AsAttach()) co_return co_await attach(call, *wanted, sandbox);
  if (auto* wanted = body.AsReadFile()) co_return co_await read_file(call, *wanted, *sandbox);
  if (auto* wanted = body.AsWriteFile()) co_return co_await write_file(call, *wanted, *sandbox);
  if (auto* wanted = body.AsListDirectory()) co_return co_await list_directory(call, wanted->path, *sandbox);
  if (auto* wanted = body.AsConnect()) co_return co_await connect(call, wanted->port);
  if (body.AsWatchFiles() != nullptr) co_return co_await watch(call);
  if (body.AsListCommands() != nullptr) {
    for (const auto& [id, command] : sandbox->commands) {
      guestapi::CommandInfoT info;
      auto bytes = wire::pack(command->info);
      co_await say(call, *wire::unpack<guestapi::CommandInfoT>(bytes));
    }
  } else if (auto* signalled = body.AsSignalCommand()) {
    auto found = sandbox->commands.find(signalled->command_id);
    if (found == sandbox->commands.end())
      co_return call.finish(make_error(Code::kNotFound, "guest.no_such_command", "no such command"));
    sandbox->received_signals.push_back(std::to_string(signalled->signal));
    exited(*found->second, 0, signalled->signal);
  } else if (auto* stat = body.AsStatFile()) {
    auto found = sandbox->files.find(stat->path);
    if (stat->path == "/") {
      auto info = info_of("/", 4096);
      info.kind = guestapi::FileKind::Directory;
      co_await say(call, info);
    } else if (stat->path.starts_with("/zeros/")) {
      co_await say(call, info_of(stat->path, number(stat->path.substr(7))));
    } else if (found == sandbox->files.end()) {
      co_return call.finish(no_such_file());
    } else {
      auto info = info_of(stat->path, found->second.size);
      info.mode = found->second.mode;
      info.uid = static_cast<std::uint32_t>(found->second.sum);
      co_await say(call, info);
    }
  } else if (auto* move = body.AsMoveFile()) {
    auto found = sandbox->files.find(move->from);
    if (found == sandbox->files.end()) co_return call.finish(no_such_file());
    if (!move->overwrite && sandbox->files.contains(move->to))
      co_return call.finish(make_error(Code::kAlreadyExists, "guest.exists", "there is such a file"));
    FakeFile file = std::move(found->second);
    sandbox->files.erase(found);
    sandbox->files[move->to] = std::move(file);
  } else if (auto* removed = body.AsRemoveFile()) {
    if (sandbox->files.erase(removed->path) == 0) co_return call.finish(no_such_file());
  } else if (auto* made = body.AsMakeDirectory()) {
    if (made->path == "/exists")
      co_return call.finish(make_error(Code::kAlreadyExists, "guest.exists", "there is such a directory"));
  } else if (body.AsHello() != nullptr) {
    guestapi::HelloReplyT hello;
    hello.protocol = 1;
    co_await say(call, hello);
  } else if (body.AsGetMetrics() != nullptr) {
    guestapi::MetricsT metrics;
    metrics.uptime_ms = 1000;
    metrics.load1 = 0.5F;
    metrics.memory_total = 512u << 20;
    metrics.processes = 3;
    co_await say(call, metrics);
  } else {
    co_return call.finish(make_error(Code::kUnimplemented, "guest.unknown_request", "unknown"));
  }
  call.finish({});
}

}  // namespace space::testkit
