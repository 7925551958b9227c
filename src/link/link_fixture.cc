// SPDX-License-Identifier: Apache-2.0
#include "link/link_fixture.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "link/qmp_codec.h"

namespace space::link {
namespace asio = boost::asio;

FakeMachine::FakeMachine(const async::Executor& executor, std::string name)
    : id(std::move(name)), executor_(executor), scope_(executor) {
  for (os::Fd* far : {&channel, &qmp_, &console_}) {
    auto pair = *os::unix_pair();
    *far = std::move(pair.first);
    near_.push_back(std::move(pair.second));
  }
}

std::vector<os::Fd> FakeMachine::near_ends() {
  return std::move(near_);
}

void FakeMachine::start_daemon() {
  daemon_ = rpc::Connection::answer(executor_, std::move(channel),
                                    [this](rpc::Call call) { return answer(std::move(call)); });
}

void FakeMachine::say(std::string_view line) {
  std::string text = std::string(line) + "\r\n";
  for (ByteView rest = as_bytes(text); !rest.empty();) {
    ssize_t put = ::send(qmp_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (put <= 0) return;
    rest = rest.subspan(static_cast<std::size_t>(put));
  }
}

void FakeMachine::print(std::string_view text) {
  os::write_all(console_.get(), as_bytes(text)).ignore("a test machine");
}

Task<void> FakeMachine::serve_qmp() {
  asio::posix::stream_descriptor socket(executor_, ::dup(qmp_.get()));
  say(R"({"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}})");
  std::string state = "running";
  QmpLines lines;
  for (;;) {
    char buffer[4096];
    boost::system::error_code error;
    std::size_t got = co_await socket.async_read_some(asio::buffer(buffer),
                                                      asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    lines.append(as_bytes(std::string_view(buffer, got))).ignore("ours are short");
    while (auto line = lines.next()) {
      // {"execute":"NAME","id":N}
      std::string name(line->substr(12, line->find('"', 12) - 12));
      std::string number(line->substr(line->rfind(':') + 1));
      number.pop_back();
      qmp_commands.push_back(name);
      if (name == "stop") state = "paused";
      if (name == "cont") state = "running";
      if (qmp_mode == Qmp::kSilent) continue;
      if (qmp_mode == Qmp::kGarbage) say("\x01\x02 garbage");
      if (qmp_mode == Qmp::kHugeLine) say(std::string(kMaxQmpLineBytes + 1, 'x'));
      if (qmp_mode == Qmp::kWrongNumber) number = "123456";
      say(name == "query-status" ? "{\"return\": {\"status\": \"" + state + "\"}, \"id\": " + number + "}"
                                 : "{\"return\": {}, \"id\": " + number + "}");
      if (name == "quit") {
        qmp_.reset();
        co_return;
      }
    }
  }
}

Task<void> FakeMachine::exec(rpc::Call& call, const guestapi::ExecT& request) {
  const std::string& program = request.argv.at(0);
  auto send = [&](auto body) { return call.send_message(guest_reply(std::move(body))); };
  if (program == "silent") {
    co_await call.gone();
    co_return;
  }
  if (program == "wrong-kind") {
    (co_await send(guestapi::MetricsT{})).ignore("test");
    co_return call.finish({});
  }
  if (program == "garbage") {
    (co_await call.send_message(to_bytes("this is no flatbuffer"))).ignore("test");
    co_return call.finish({});
  }
  if (program == "status-evil")
    co_return call.finish(make_error(Code::kNotFound, "control.evil", "line\nand \x1b[31mcolour"));
  (co_await send(started_reply())).ignore("test");
  if (program == "no-exit") co_return call.finish({});
  if (program == "two-starts") (co_await send(started_reply())).ignore("test");
  if (program == "channel-9") (co_await call.send_data(9, as_bytes("x"))).ignore("test");
  if (program == "vanish") co_return;  // the call is reset
  if (program == "hang") {
    auto event = co_await call.next();
    while (event.ok()) {
      bool end = std::holds_alternative<rpc::End>(*event);
      if (end) break;
      event = co_await call.next();
    }
    if ((co_await call.gone()).reason == "rpc.reset") ++resets;
    co_return;
  }
  if (program == "flood") {
    const std::string block(32 * 1024, 'f');
    while ((co_await call.send_data(1, as_bytes(block))).ok()) produced += block.size();
    co_return;
  }
  if (program == "cat") {
    for (;;) {
      auto event = co_await call.next();
      if (!event.ok() || std::holds_alternative<rpc::End>(*event)) break;
      if (auto* data = std::get_if<rpc::Data>(&*event))
        (co_await call.send_data(1, data->bytes)).ignore("test");
      if (auto* message = std::get_if<rpc::Message>(&*event))
        controls.push_back(wire::unpack<guestapi::ControlT>(message->bytes)->body.type);
    }
  } else {
    (co_await call.send_data(1, as_bytes("out"))).ignore("test");
    (co_await call.send_data(2, as_bytes("err"))).ignore("test");
  }
  (co_await send(exited_reply(program == "fail" ? 7 : 0))).ignore("test");
  call.finish({});
}

// An honest daemon, except where Exec names a misbehaviour.
Task<void> FakeMachine::answer(rpc::Call call) {
  auto request = wire::unpack<guestapi::RequestT>(call.request());
  if (!request.ok()) co_return call.finish(std::move(request).error());
  auto send = [&](auto body) { return call.send_message(guest_reply(std::move(body))); };
  using guestapi::RequestBody;
  switch (request->body.type) {
    case RequestBody::Exec:
      co_return co_await exec(call, *request->body.AsExec());
    case RequestBody::Attach: {
      guestapi::AttachedT attached;
      attached.pid = 42;
      (co_await send(std::move(attached))).ignore("test");
      (co_await call.send_data(1, as_bytes("kept"))).ignore("test");
      (co_await send(exited_reply(3))).ignore("test");
      break;
    }
    case RequestBody::ListCommands: {
      guestapi::CommandInfoT info;
      info.command_id = "c1";
      info.running = true;
      (co_await send(std::move(info))).ignore("test");
      break;
    }
    case RequestBody::ReadFile:
      (co_await send(file_reply("x"))).ignore("test");
      (co_await call.send_data(1, as_bytes("content"))).ignore("test");
      break;
    case RequestBody::WriteFile: {
      if (request->body.AsWriteFile()->path == "/never-read") {
        co_await call.gone();
        co_return;
      }
      for (;;) {
        auto event = co_await call.next();
        if (!event.ok()) co_return;
        if (auto* data = std::get_if<rpc::Data>(&*event)) received += to_text(data->bytes);
        if (std::holds_alternative<rpc::End>(*event)) break;
      }
      (co_await send(file_reply("x"))).ignore("test");
      break;
    }
    case RequestBody::ListDirectory: {
      guestapi::DirectoryPageT page;
      page.entries.push_back(std::make_unique<guestapi::FileInfoT>(file_reply("name")));
      (co_await send(std::move(page))).ignore("test");
      break;
    }
    case RequestBody::StatFile:
      (co_await send(file_reply("x"))).ignore("test");
      break;
    case RequestBody::WatchFiles: {
      (co_await send(guestapi::WatchingT{})).ignore("test");
      guestapi::WatchEventT event;
      event.path = "/w/new";
      (co_await send(std::move(event))).ignore("test");
      break;
    }
    case RequestBody::Connect:
      (co_await send(guestapi::ConnectedT{})).ignore("test");
      (co_await call.send_data(1, as_bytes("network"))).ignore("test");
      break;
    case RequestBody::Hello: {
      guestapi::HelloReplyT hello;
      hello.protocol = 1;
      hello.version = "fake";
      hello.kernel_boot_us = 5;
      (co_await send(std::move(hello))).ignore("test");
      break;
    }
    case RequestBody::GetMetrics:
      (co_await send(guestapi::MetricsT{})).ignore("test");
      break;
    default:
      break;  // those that answer by their end
  }
  call.finish({});
}

Task<void> FakeMachine::stop() {
  qmp_.reset();
  if (daemon_) co_await daemon_->stop();
  co_await scope_.stop();
}

void LinkTest::SetUp() {
  char pattern[] = "/tmp/space-link-XXXXXX";
  dir = ::mkdtemp(pattern);
  log_file = *os::open_file(dir + "/log", O_WRONLY | O_CREAT | O_APPEND);
  log = std::make_unique<obs::Log>(log_file.get(), "link", clock);
  link = std::make_unique<Link>(loop.get_executor(), random, *log, *os::listen_unix(dir + "/node"),
                                *os::listen_unix(dir + "/control"));
  link->start();
  node =
      std::make_unique<rpc::Client>(loop.get_executor(), random, "link", rpc::Client::to_path(dir + "/node"));
  control = std::make_unique<rpc::Client>(loop.get_executor(), random, "link",
                                          rpc::Client::to_path(dir + "/control"));
}

void LinkTest::TearDown() {
  os::remove_tree(dir).ignore("test clean-up");
}

Task<void> LinkTest::whole(Task<void> task) {
  co_await std::move(task);
  co_await node->stop();
  co_await control->stop();
  co_await link->stop();
  for (auto& machine : machines) co_await machine->stop();
}

void LinkTest::run(Task<void> task) {
  asio::co_spawn(loop, whole(std::move(task)), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
}

FakeMachine& LinkTest::machine(char letter, bool daemon) {
  machines.push_back(std::make_unique<FakeMachine>(loop.get_executor(), std::string(20, letter)));
  machines.back()->start_qmp();
  if (daemon) machines.back()->start_daemon();
  return *machines.back();
}

Task<Result<Bytes>> LinkTest::node_call(Bytes request, std::chrono::milliseconds limit) {
  co_return co_await node->unary(std::move(request), limit);
}

Task<Result<void>> LinkTest::attach(FakeMachine& machine, std::uint64_t generation) {
  linkapi::AttachSandboxT request;
  request.sandbox = machine.id;
  request.generation = generation;
  auto answer =
      co_await node->unary(wire::pack_body<linkapi::RequestT>(std::move(request)), 20s, machine.near_ends());
  if (!answer.ok()) co_return std::move(answer).error();
  co_return Result<void>();
}

Task<rpc::Call> LinkTest::start_call(const FakeMachine& machine, Bytes request, std::uint32_t deadline_ms) {
  linkapi::GuestCallT call;
  call.sandbox = machine.id;
  call.request.resize(request.size());
  std::memcpy(call.request.data(), request.data(), request.size());
  call.answer_deadline_ms = deadline_ms;
  co_return std::move(*co_await control->start(wire::pack_body<linkapi::RequestT>(std::move(call))));
}

Task<Answer> collect(rpc::Call& call) {
  Answer answer;
  for (;;) {
    auto event = co_await call.next();
    if (!event.ok()) {
      answer.status = std::move(event).error();
      co_return answer;
    }
    if (auto* message = std::get_if<rpc::Message>(&*event))
      answer.messages.push_back(std::move(message->bytes));
    if (auto* data = std::get_if<rpc::Data>(&*event)) answer.data[data->channel] += to_text(data->bytes);
    if (auto* end = std::get_if<rpc::End>(&*event)) {
      answer.status = std::move(end->status);
      co_return answer;
    }
  }
}

Task<Answer> LinkTest::ask(const FakeMachine& machine, Bytes request, std::uint32_t deadline_ms) {
  rpc::Call call = co_await start_call(machine, std::move(request), deadline_ms);
  call.end();
  co_return co_await collect(call);
}

}  // namespace space::link
