// SPDX-License-Identifier: Apache-2.0
// The real program as its own user: what it may still do, and that it serves like that, also with the real
// daemon.
#include <grp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <sstream>

#include "link/link_fixture.h"

namespace space::link {
namespace {

constexpr uid_t kUser = 65534;

// Starts `argv` with `fds` as descriptors 10, 11, ...
pid_t start(std::vector<std::string> argv, const std::vector<int>& fds, uid_t uid) {
  std::vector<char*> words;
  for (auto& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<int> high;
  for (int fd : fds) high.push_back(::fcntl(fd, F_DUPFD, 100));
  for (std::size_t i = 0; i < high.size(); ++i) ::dup2(high[i], 10 + static_cast<int>(i));
  if (uid != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(99);
  ::execv(words[0], words.data());
  ::_exit(98);
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The fixture's Link is another process here.
struct ProcessTest : LinkTest {
  pid_t pid = -1;
  pid_t daemon = -1;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "starts processes of other users";
    LinkTest::SetUp();
    // The sockets of the in-process Link are replaced by those of the program.
    os::Fd node_socket = *os::listen_unix(dir + "/node");
    os::Fd control_socket = *os::listen_unix(dir + "/control");
    pid = start({std::string(SPACE_BIN_DIR) + "/space-link", "--node-fd", "10", "--control-fd", "11",
                 "--log-level", "warning"},
                {node_socket.get(), control_socket.get()}, kUser);
  }
  void TearDown() override {
    if (daemon > 0) {
      ::kill(daemon, SIGKILL);
      wait_for(daemon);
    }
    if (pid > 0) {
      ::kill(pid, SIGTERM);
      EXPECT_EQ(wait_for(pid), 0);
      LinkTest::TearDown();
    }
  }
  std::string status_of(const std::string& key) const {
    std::istringstream lines(*os::read_file("/proc/" + std::to_string(pid) + "/status"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
    }
    return "";
  }
};

// Makes a stopped process carry out one system call; its result, or 1000000 + signal when that ended the
// process.
long inject(pid_t pid, long number, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr);
  user_regs_struct before{};
  int status = 0;
  for (;;) {  // until it is caught where it waits: right behind a syscall instruction
    ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr);
    ::waitpid(pid, &status, 0);
    ::ptrace(PTRACE_GETREGS, pid, nullptr, &before);
    long word = ::ptrace(PTRACE_PEEKTEXT, pid, before.rip - 2, nullptr);
    if ((word & 0xffff) == 0x050f) break;
    ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  }
  user_regs_struct call = before;
  call.rip -= 2;
  call.rax = static_cast<std::uint64_t>(number);
  call.orig_rax = ~0ULL;  // nothing is to be restarted
  call.rdi = a;
  call.rsi = b;
  call.rdx = c;
  ::ptrace(PTRACE_SETREGS, pid, nullptr, &call);
  ::ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr);
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return 1'000'000 + WTERMSIG(status);
  user_regs_struct after{};
  ::ptrace(PTRACE_GETREGS, pid, nullptr, &after);
  ::ptrace(PTRACE_SETREGS, pid, nullptr, &before);
  ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  return static_cast<long>(after.rax);
}

Task<void> serves(ProcessTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}

TEST_F(ProcessTest, ServesWithoutAnyRight) {
  run(serves(*this));
  EXPECT_EQ(status_of("Seccomp"), "2");
  EXPECT_EQ(status_of("NoNewPrivs"), "1");
  EXPECT_EQ(status_of("CapEff"), "0000000000000000");
  EXPECT_EQ(status_of("CapPrm"), "0000000000000000");
  EXPECT_EQ(status_of("CapAmb"), "0000000000000000");
  std::string limits = *os::read_file("/proc/" + std::to_string(pid) + "/limits");
  EXPECT_NE(limits.find("Max core file size        0                    0"), std::string::npos);
}

TEST_F(ProcessTest, TheRunningProcessCanOpenNothing) {
  run(serves(*this));
  EXPECT_EQ(inject(pid, SYS_getpid, 0, 0, 0), pid);  // the control: calls can be made like this
  EXPECT_EQ(inject(pid, SYS_openat, static_cast<std::uint64_t>(AT_FDCWD), 0, O_RDONLY), -EPERM);
  EXPECT_EQ(inject(pid, SYS_open, 0, O_RDONLY, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_socket, AF_UNIX, SOCK_STREAM, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_socket, AF_INET, SOCK_STREAM, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_connect, 3, 0, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_kill, 1, 0, 0), -EPERM);
  EXPECT_EQ(inject(pid, SYS_mprotect, 0, 4096, 4), -EPERM);  // PROT_EXEC
}

TEST_F(ProcessTest, StartingAProgramKillsIt) {
  run(serves(*this));
  EXPECT_EQ(inject(pid, SYS_execve, 0, 0, 0), 1'000'000 + SIGSYS);
  pid = -1;
  LinkTest::TearDown();
}

TEST(ProcessStart, RefusesWhatItCannotServe) {
  std::string program = std::string(SPACE_BIN_DIR) + "/space-link";
  EXPECT_EQ(wait_for(start({program}, {}, 0)), 2);
  EXPECT_EQ(wait_for(start({program, "--node-fd", "10"}, {}, 0)), 2);
  EXPECT_EQ(wait_for(start({program, "--node-fd", "x", "--control-fd", "11"}, {}, 0)), 2);
  auto pair = *os::unix_pair();
  EXPECT_EQ(wait_for(start({program, "--node-fd", "10", "--control-fd", "11", "--log-level", "error"},
                           {pair.first.get(), pair.second.get()}, 0)),
            1);
}

// ---- the real daemon behind the real program ----

template <class Body>
Task<Answer> ask(ProcessTest& t, Body body) {
  co_return co_await t.ask(*t.machines.at(0), guest_request(std::move(body)), 20'000);
}
guestapi::ExecT shell(std::string id, std::string script) {
  guestapi::ExecT exec;
  exec.command_id = std::move(id);
  exec.argv = {"/bin/sh", "-c", std::move(script)};
  return exec;
}

Task<void> commands_for_real(ProcessTest& t) {
  auto& m = *t.machines.at(0);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  Answer run = co_await ask(t, shell("c1", "echo out; echo err >&2; exit 3"));
  EXPECT_EQ(run.reason(), "ok");
  EXPECT_EQ(run.data[1], "out\n");
  EXPECT_EQ(run.data[2], "err\n");
  EXPECT_EQ(run.messages.size(), 2U);
  if (run.messages.size() == 2) EXPECT_EQ(message_as<guestapi::ExitedT>(run.messages[1]).exit_code, 3);

  Answer killed = co_await ask(t, shell("c2", "kill -9 $$"));
  EXPECT_EQ(message_as<guestapi::ExitedT>(killed.messages.at(1)).signal, 9);

  guestapi::ExecT none;
  none.command_id = "c3";
  none.argv = {"no-such-program"};
  EXPECT_EQ((co_await ask(t, std::move(none))).reason(), "guest.command_not_found");

  auto terminal = shell("c4", "test -t 1 && echo tty");
  terminal.pty = std::make_unique<guestapi::PtyT>();
  Answer pty = co_await ask(t, std::move(terminal));
  EXPECT_EQ(pty.reason(), "ok");
  EXPECT_EQ(pty.data[1], "tty\r\n");

  auto cat = shell("c5", "cat");
  cat.open_stdin = true;
  rpc::Call call = co_await t.start_call(m, guest_request(std::move(cat)));
  EXPECT_TRUE((co_await call.send_data(0, as_bytes(std::string(100'000, 'i')))).ok());
  call.end();
  Answer echoed = co_await collect(call);
  EXPECT_EQ(echoed.reason(), "ok");
  EXPECT_EQ(echoed.data[1].size(), 100'000U);

  auto detached = shell("c6", "echo kept; sleep 1000");
  detached.detached = true;
  EXPECT_EQ((co_await ask(t, std::move(detached))).reason(), "ok");
  guestapi::AttachT attach;
  attach.command_id = "c6";
  rpc::Call attached = co_await t.start_call(m, guest_request(std::move(attach)));
  EXPECT_TRUE((co_await attached.next()).ok());  // Attached
  auto kept = co_await attached.next();          // the command has come to its sleep
  EXPECT_TRUE(kept.ok());
  if (kept.ok()) EXPECT_EQ(to_text(std::get<rpc::Data>(*kept).bytes), "kept\n");
  guestapi::SignalCommandT signal;
  signal.command_id = "c6";
  signal.signal = SIGKILL;
  EXPECT_EQ((co_await ask(t, std::move(signal))).reason(), "ok");
  Answer rest = co_await collect(attached);
  EXPECT_EQ(rest.reason(), "ok");

  Answer list = co_await ask(t, guestapi::ListCommandsT{});
  EXPECT_EQ(list.reason(), "ok");
  EXPECT_EQ(list.messages.size(), 5U);
  EXPECT_EQ((co_await ask(t, guestapi::HelloT{})).reason(), "ok");
  EXPECT_EQ((co_await ask(t, guestapi::GetMetricsT{})).reason(), "ok");
}

Task<void> files_for_real(ProcessTest& t) {
  auto& m = *t.machines.at(0);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  const std::string root = t.dir + "/guest";
  guestapi::MakeDirectoryT make;
  make.path = root;
  EXPECT_EQ((co_await ask(t, std::move(make))).reason(), "ok");

  guestapi::WatchFilesT watch;
  watch.path = root;
  rpc::Call watching = co_await t.start_call(m, guest_request(std::move(watch)));
  EXPECT_TRUE((co_await watching.next()).ok());  // Watching

  std::string content(1'000'001, 0);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 13 + i / 256);
  guestapi::WriteFileT write;
  write.path = root + "/file";
  rpc::Call upload = co_await t.start_call(m, guest_request(std::move(write)), 20'000);
  EXPECT_TRUE((co_await upload.send_data(0, as_bytes(content))).ok());
  upload.end();
  EXPECT_EQ((co_await collect(upload)).reason(), "ok");

  guestapi::ReadFileT read;
  read.path = root + "/file";
  Answer back = co_await ask(t, std::move(read));
  EXPECT_EQ(back.reason(), "ok");
  EXPECT_EQ(back.data[1], content);
  EXPECT_EQ(message_as<guestapi::FileInfoT>(back.messages.at(0)).size, content.size());

  EXPECT_TRUE(os::write_file_atomic(root + "/odd\xff\n name", "x", os::Durability::kBuffered).ok());
  EXPECT_EQ(::symlink("../elsewhere", (root + "/link").c_str()), 0);
  guestapi::ListDirectoryT list;
  list.path = root;
  Answer page = co_await ask(t, std::move(list));
  EXPECT_EQ(page.reason(), "ok");
  EXPECT_EQ(message_as<guestapi::DirectoryPageT>(page.messages.at(0)).entries.size(), 3U);

  guestapi::StatFileT stat;
  stat.path = root + "/link";
  stat.follow = false;
  EXPECT_EQ(message_as<guestapi::FileInfoT>((co_await ask(t, std::move(stat))).messages.at(0)).target,
            "../elsewhere");
  guestapi::MoveFileT move;
  move.from = root + "/file";
  move.to = root + "/moved";
  EXPECT_EQ((co_await ask(t, std::move(move))).reason(), "ok");
  guestapi::RemoveFileT remove;
  remove.path = root;
  EXPECT_NE((co_await ask(t, remove)).reason(), "ok");  // not empty
  remove.recursive = true;
  EXPECT_EQ((co_await ask(t, std::move(remove))).reason(), "ok");
  guestapi::ReadFileT missing;
  missing.path = root + "/file";
  EXPECT_EQ((co_await ask(t, std::move(missing))).reason(), "guest.no_such_file");

  auto event = co_await watching.next();
  EXPECT_TRUE(event.ok());
  if (event.ok())
    EXPECT_TRUE(
        message_as<guestapi::WatchEventT>(std::get<rpc::Message>(*event).bytes).path.starts_with(root));
}

struct RealDaemonTest : ProcessTest {
  void SetUp() override {
    std::string program = std::string(SPACE_BIN_DIR) + "/spaced";
    if (!os::exists(program)) GTEST_SKIP() << "needs " << program;
    ProcessTest::SetUp();
    if (pid <= 0) return;
    auto& m = machine('a', false);
    daemon = start({program, "--fd", "10"}, {m.channel.get()}, 0);
    m.channel.reset();
  }
};
TEST_F(RealDaemonTest, CommandsWork) {
  run(commands_for_real(*this));
}
TEST_F(RealDaemonTest, FilesWork) {
  run(files_for_real(*this));
}

}  // namespace
}  // namespace space::link
