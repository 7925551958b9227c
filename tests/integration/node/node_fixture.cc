// SPDX-License-Identifier: Apache-2.0
#include "integration/node/node_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "lib/wire/message.h"
#include "node/slot/cgroup.h"
#include "node/template/manifest.h"

namespace space::node::testing {
namespace fs = std::filesystem;

namespace {

constexpr uid_t kUidBase = 650'000;

std::size_t entries(const std::string& directory) {
  std::error_code none;
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory, none)) ++count;
  return count;
}

std::vector<std::string> v1_groups(const std::string& node) {
  std::vector<std::string> all;
  auto layout = slot::find_cgroup_layout();
  for (const auto& [controller, mount] : layout->mounts.v1) all.push_back(mount + "/space-" + node);
  if (!layout->mounts.v2.empty()) all.push_back(layout->mounts.v2 + "/space-" + node);
  return all;
}

std::size_t children_of(pid_t parent) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    auto stat = os::read_file(entry.path().string() + "/stat");
    if (!stat.ok()) continue;
    std::istringstream rest(stat->substr(stat->rfind(')') + 1));
    std::string state;
    pid_t ppid = 0;
    rest >> state >> ppid;
    if (ppid == parent) ++count;
  }
  return count;
}

async::Task<void> collect(rpc::Connection& connection, Bytes request, Result<std::vector<Bytes>>& out) {
  std::vector<Bytes> replies;
  auto call = connection.start(std::move(request));
  if (!call.ok()) {
    out = call.error();
    co_return;
  }
  for (;;) {
    auto event = co_await call->next();
    if (!event.ok()) {
      out = event.error();
      co_return;
    }
    if (auto* message = std::get_if<rpc::Message>(&*event)) replies.push_back(std::move(message->bytes));
    if (auto* end = std::get_if<rpc::End>(&*event)) {
      out = end->status.ok() ? Result<std::vector<Bytes>>(std::move(replies))
                             : Result<std::vector<Bytes>>(end->status.error());
      co_return;
    }
  }
}

// Takes events until `wanted` says yes.
async::Task<void> follow(rpc::Connection& connection, const std::function<bool(nodeapi::EventT&)>& wanted,
                         Result<nodeapi::EventT>& out) {
  auto call = connection.start(wire::pack_body<nodeapi::RequestT>(nodeapi::WatchT{}));
  if (!call.ok()) {
    out = call.error();
    co_return;
  }
  for (;;) {
    auto event = co_await call->next();
    auto* message = event.ok() ? std::get_if<rpc::Message>(&*event) : nullptr;
    if (message == nullptr) {
      out = event.ok() ? make_error(Code::kInternal, "test", "the watch ended") : event.error();
      co_return;
    }
    auto body = wire::unpack_body<nodeapi::ReplyT, nodeapi::EventT>(message->bytes);
    if (body.ok() && wanted(*body)) {
      out = std::move(*body);
      co_return;
    }
  }
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const std::vector<int>& keep,
                 const std::map<std::string, std::string>& environment, const std::string& log, uid_t uid) {
  std::vector<char*> arguments;
  for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  os::Fd log_fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  pid_ = ::fork();
  if (pid_ != 0) return;
  // The test program has no threads.
  if (uid != 0 && (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int fd : keep) ::fcntl(fd, F_SETFD, 0);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::dup2(log_fd.get(), 2);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    end(SIGKILL);
    pid_ = std::exchange(other.pid_, 0);
  }
  return *this;
}

void Process::end(int signal) {
  if (pid_ <= 0) return;
  ::kill(pid_, signal);
  wait();
}

int Process::wait() {
  int status = 0;
  if (pid_ > 0) ::waitpid(std::exchange(pid_, 0), &status, 0);
  return status;
}

std::ostream& operator<<(std::ostream& out, const Footprint& f) {
  return out << "children " << f.children << " node_fds " << f.node_fds << " link_fds " << f.link_fds
             << " groups " << f.groups << " files " << f.files << " mounts " << f.mounts << " processes "
             << f.processes;
}

void NodeFixture::SetUp() {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  // Machines that outlive a killed node come to this process, as they come to `space up`.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  char pattern[] = "/tmp/space-node-test-XXXXXX";
  dir_ = ::mkdtemp(pattern);
  ::chmod(dir_.c_str(), 0755);
  fs::create_directories(dir_ + "/templates/test");
  make_template(dir_ + "/templates/test");
  link_node_listener_ = *os::listen_unix(dir_ + "/link-node.sock");
  link_control_listener_ = *os::listen_unix(dir_ + "/link-control.sock");
  node_listener_ = *os::listen_unix(dir_ + "/node.sock");
  start_link();
  start_node();
}

void NodeFixture::TearDown() {
  if (dir_.empty()) return;
  // Sandboxes that a test left are ended in order; the node's log tells what happened when it failed.
  if (node_.pid() != 0) {
    for (const auto& sandbox : list()) destroy(sandbox.sandbox).ignore("clean-up");
  }
  if (HasFailure()) std::fprintf(stderr, "---- log ----\n%s-------------\n", log_text().c_str());
  std::string id = node_id();
  node_.end(SIGTERM);
  link_.end(SIGTERM);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  for (const auto& group : v1_groups(id)) ::rmdir(group.c_str());
  os::remove_tree(dir_).ignore("clean-up");
}

std::vector<std::string> NodeFixture::backend_arguments() {
  return {"--backend", "fake", "--spaced", SPACED_BINARY};
}

void NodeFixture::make_template(const std::string& dir) {
  tmpl::Manifest manifest;
  manifest.name = "test";
  manifest.suite = "none";
  manifest.disk_bytes = 1 << 20;
  manifest.recipe_digest = std::string(64, '0');
  manifest.disk_sha256 = std::string(64, '0');
  manifest.initramfs_sha256 = std::string(64, '0');
  manifest.kernel_version = "0";
  for (const char* name : {tmpl::kDiskFile, tmpl::kKernelFile, tmpl::kInitramfsFile}) {
    os::write_file_atomic(dir + "/" + name, "x", os::Durability::kBuffered, 0644).value();
  }
  ASSERT_EQ(::truncate((dir + "/" + tmpl::kDiskFile).c_str(), 1 << 20), 0);
  os::write_file_atomic(dir + "/" + tmpl::kManifestFile, tmpl::to_json(manifest), os::Durability::kBuffered,
                        0644)
      .value();
}

void NodeFixture::start_link() {
  link_ = Process({SPACE_LINK_BINARY, "--node-fd", std::to_string(link_node_listener_.get()), "--control-fd",
                   std::to_string(link_control_listener_.get())},
                  {link_node_listener_.get(), link_control_listener_.get()}, {}, dir_ + "/log", kUidBase + 2);
}

void NodeFixture::start_node(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> argv = {SPACE_NODE_BINARY,
                                   "--data",
                                   dir_,
                                   "--listen-fd",
                                   std::to_string(node_listener_.get()),
                                   "--link-socket",
                                   dir_ + "/link-node.sock",
                                   "--templates",
                                   dir_ + "/templates",
                                   "--uid-base",
                                   std::to_string(kUidBase),
                                   "--accel",
                                   "tcg"};
  for (auto& argument : backend_arguments()) argv.push_back(std::move(argument));
  node_ = Process(argv, {node_listener_.get()}, environment, dir_ + "/log");
}

void NodeFixture::restart_node(int signal, const std::map<std::string, std::string>& environment) {
  node_.end(signal);
  start_node(environment);
}

Result<std::vector<Bytes>> NodeFixture::call(Bytes request, std::chrono::milliseconds limit) {
  async::Loop loop(1);
  auto socket = os::connect_unix(dir_ + "/node.sock");
  if (!socket.ok()) return std::move(socket).error();
  auto connection = rpc::Connection::ask(loop.get_executor(), std::move(*socket), random_);
  Result<std::vector<Bytes>> out = make_error(Code::kDeadlineExceeded, "test.deadline", "no answer in time");
  boost::asio::co_spawn(
      loop,
      [](rpc::Connection& to, Bytes body, Result<std::vector<Bytes>>& result,
         async::Loop& stop) -> async::Task<void> {
        auto attached = co_await to.wait_attached(std::chrono::seconds(10));
        if (attached.ok()) {
          co_await collect(to, std::move(body), result);
        } else {
          result = attached.error();
        }
        stop.stop();
      }(*connection, std::move(request), out, loop),
      boost::asio::detached);
  loop.run_for(limit);
  return out;
}

Result<nodeapi::SandboxInfoT> NodeFixture::create(
    const std::string& sandbox, const std::function<void(nodeapi::CreateSandboxT&)>& change) {
  nodeapi::CreateSandboxT body;
  body.sandbox = sandbox;
  body.session = "session0000000000000";
  body.tenant = "default";
  body.generation = 1;
  body.template_name = "test";
  body.resources = std::make_unique<nodeapi::ResourcesT>();
  body.resources->vcpus = 1;
  body.resources->memory_bytes = 128ULL << 20;
  body.resources->disk_bytes = 1ULL << 30;
  if (change) change(body);
  SPACE_TRY(auto replies,
            call(wire::pack_body<nodeapi::RequestT>(std::move(body)), std::chrono::seconds(120)));
  if (replies.size() != 1) return make_error(Code::kInternal, "test", "create gave no answer");
  return wire::unpack_body<nodeapi::ReplyT, nodeapi::SandboxInfoT>(replies[0]);
}

Result<nodeapi::DestroyedT> NodeFixture::destroy(const std::string& sandbox, std::uint32_t grace_ms) {
  nodeapi::DestroySandboxT body;
  body.sandbox = sandbox;
  body.grace_ms = grace_ms;
  SPACE_TRY(auto replies, call(wire::pack_body<nodeapi::RequestT>(std::move(body))));
  if (replies.size() != 1) return make_error(Code::kInternal, "test", "destroy gave no answer");
  return wire::unpack_body<nodeapi::ReplyT, nodeapi::DestroyedT>(replies[0]);
}

std::vector<nodeapi::SandboxInfoT> NodeFixture::list() {
  std::vector<nodeapi::SandboxInfoT> all;
  auto replies = call(wire::pack_body<nodeapi::RequestT>(nodeapi::ListSandboxesT{}));
  EXPECT_TRUE(replies.ok());
  if (!replies.ok()) return all;
  for (const auto& reply : *replies)
    all.push_back(*wire::unpack_body<nodeapi::ReplyT, nodeapi::SandboxInfoT>(reply));
  return all;
}

nodeapi::EventT NodeFixture::recovered() {
  auto first = ended("", [] {});
  EXPECT_TRUE(first.ok());
  return first.ok() ? std::move(*first) : nodeapi::EventT();
}

Result<nodeapi::EventT> NodeFixture::ended(const std::string& sandbox, const std::function<void()>& during) {
  async::Loop loop(1);
  auto socket = os::connect_unix(dir_ + "/node.sock");
  if (!socket.ok()) return std::move(socket).error();
  auto connection = rpc::Connection::ask(loop.get_executor(), std::move(*socket), random_);
  Result<nodeapi::EventT> out = make_error(Code::kDeadlineExceeded, "test.deadline", "no event in time");
  auto wanted = [&, first = true](nodeapi::EventT& event) mutable {
    if (std::exchange(first, false)) {
      EXPECT_EQ(event.kind, nodeapi::EventKind::Recovered);
      during();
      return sandbox.empty();
    }
    return event.sandbox == sandbox;
  };
  boost::asio::co_spawn(
      loop,
      [](rpc::Connection& to, std::function<bool(nodeapi::EventT&)> want, Result<nodeapi::EventT>& result,
         async::Loop& stop) -> async::Task<void> {
        auto attached = co_await to.wait_attached(std::chrono::seconds(10));
        if (attached.ok()) co_await follow(to, want, result);
        stop.stop();
      }(*connection, wanted, out, loop),
      boost::asio::detached);
  loop.run_for(std::chrono::seconds(60));
  return out;
}

std::string NodeFixture::node_id() const {
  auto text = os::read_file(dir_ + "/node.id");
  return text.ok() ? text->substr(0, text->find('\n')) : std::string("none");
}

Footprint NodeFixture::footprint() {
  // Its own asking is over only when the server has noticed that the connection is gone.
  Footprint now;
  now.children = children_of(node_.pid());
  now.node_fds = entries("/proc/" + std::to_string(node_.pid()) + "/fd");
  now.link_fds = entries("/proc/" + std::to_string(link_.pid()) + "/fd");
  for (const auto& group : v1_groups(node_id())) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(group, none)) now.groups += entry.is_directory() ? 1 : 0;
  }
  std::error_code none;
  for ([[maybe_unused]] const auto& entry : fs::recursive_directory_iterator(node_dir() + "/sandboxes", none))
    ++now.files;
  auto mounts = os::read_file("/proc/" + std::to_string(node_.pid()) + "/mountinfo");
  if (mounts.ok()) now.mounts = static_cast<std::size_t>(std::count(mounts->begin(), mounts->end(), '\n'));
  for (const auto& entry : fs::directory_iterator("/proc")) {
    auto groups = os::read_file(entry.path().string() + "/cgroup");
    if (groups.ok() && groups->find("space-" + node_id()) != std::string::npos) ++now.processes;
  }
  return now;
}

std::string NodeFixture::log_text() const {
  auto text = os::read_file(dir_ + "/log");
  return text.ok() ? *text : std::string();
}

void NodeFixture::expect_nothing_left() {
  Footprint now = footprint();
  EXPECT_EQ(now.files, 0U);
  EXPECT_EQ(now.groups, 0U);
  EXPECT_EQ(now.processes, 0U);
  EXPECT_EQ(now.children, 0U);
}

}  // namespace space::node::testing
