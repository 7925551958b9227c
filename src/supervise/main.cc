// SPDX-License-Identifier: Apache-2.0
#include "supervise/main.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <csignal>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "supervise/data_directory.h"
#include "supervise/health.h"
#include "supervise/listen.h"
#include "supervise/options.h"
#include "supervise/siblings.h"
#include "supervise/supervisor.h"

namespace space::supervise {
namespace {

using async::Task;
using namespace std::chrono_literals;

constexpr int kPatienceMs = 2000;                 // for what an earlier start may still hold
constexpr std::chrono::seconds kReadyLimit{180};  // the KVM probe and recovery are in it
constexpr std::chrono::seconds kRecoveryLimit{5};
// Together with what the kernel needs: within 30 s.
constexpr std::chrono::milliseconds kControlGrace{18'000};
constexpr std::chrono::milliseconds kNodeGrace{7'000};
constexpr std::chrono::milliseconds kLinkGrace{2'000};

void say(const std::string& line) {
  os::write_all(2, as_bytes("space up: " + line + "\n")).ignore("nobody is there to read it");
}

int refuse(const Error& error) {
  std::string reason =
      error.reason == "supervise.usage" || error.reason.empty() ? "" : " (" + error.reason + ")";
  say(error.message + reason);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

// Everything that is opened before the first child is started. Resource type.
struct Prepared {
  DataDirectory data;
  DataLock lock;
  UserIds users;
  std::string node;
  std::string key;
  Siblings siblings;
  Listener api;
  os::Fd node_socket;
  os::Fd link_node_socket;
  os::Fd link_control_socket;
  os::Fd state;
  os::Fd run;
};

Result<os::Fd> listen_for(const std::string& path, uid_t user) {
  SPACE_TRY(os::Fd fd, os::listen_unix(path, 0600));
  if (::chown(path.c_str(), user, user) != 0) return errno_error(errno, "os.file", "set owner of " + path);
  return fd;
}

Result<Prepared> prepare(const Options& options) {
  if (::geteuid() != 0) {
    return make_error(Code::kPermissionDenied, "supervise.not_root",
                      "it must be started as root: it makes users, jails and cgroups for the "
                      "sandboxes; try: sudo space up ...");
  }
  SPACE_TRY(DataDirectory data, open_data_directory(options.data, options.min_free));
  SPACE_TRY(DataLock lock, DataLock::take(data.in("lock"), kPatienceMs));
  os::SystemRandom random;
  SPACE_TRY(std::string node, node_id(data, random));
  SPACE_TRY(UserIds users, user_ids(node, options.uid_base));
  SPACE_CHECK_OK(make_layout(data, users));
  SPACE_TRY(Siblings siblings, find_siblings(options, data));
  SPACE_TRY(Listener api, listen_tcp(options.listen, kPatienceMs));
  SPACE_TRY(int killed, ChildrenFile(data.in("run/children")).bury());
  if (killed > 0)
    say(std::to_string(killed) + " service processes of an earlier start were still there and were killed");
  SPACE_TRY(std::string key, admin_key(data, random));
  // Control connects to two of them, node (as root) to the third.
  SPACE_TRY(os::Fd node_socket, listen_for(data.in("run/node.sock"), users.control()));
  SPACE_TRY(os::Fd link_node, listen_for(data.in("run/link-node.sock"), 0));
  SPACE_TRY(os::Fd link_control, listen_for(data.in("run/link-control.sock"), users.control()));
  SPACE_TRY(os::Fd state, os::open_file(data.in("control"), O_RDONLY | O_DIRECTORY));
  SPACE_TRY(os::Fd run, os::open_file(data.in("run"), O_RDONLY | O_DIRECTORY));
  if (!siblings.openapi.empty()) {
    // The file may lie where control's user doesn't reach.
    SPACE_TRY(std::string openapi, os::read_file(siblings.openapi, 4u << 20));
    SPACE_CHECK_OK(
        os::write_file_atomic(data.in("run/openapi.yaml"), openapi, os::Durability::kBuffered, 0644));
  }
  return Prepared{std::move(data),         std::move(lock),        users,
                  std::move(node),         std::move(key),         std::move(siblings),
                  std::move(api),          std::move(node_socket), std::move(link_node),
                  std::move(link_control), std::move(state),       std::move(run)};
}

std::string number(std::size_t index) {
  return std::to_string(kFirstDescriptor + static_cast<int>(index));
}

std::vector<Service> services(const Prepared& it, const Options& options) {
  Service link{{"space-link",
                it.siblings.link,
                {},
                it.users.link(),
                {it.link_node_socket.get(), it.link_control_socket.get()}},
               kLinkGrace};
  link.spec.arguments = {"--node-fd", number(0), "--control-fd", number(1), "--log-level", options.log_level};

  std::string templates;
  for (const auto& path : it.siblings.templates) templates += (templates.empty() ? "" : ":") + path;
  Service node{{"space-node", it.siblings.node, {}, std::nullopt, {it.node_socket.get()}}, kNodeGrace};
  node.spec.arguments = {"--data",        it.data.root,
                         "--listen-fd",   number(0),
                         "--link-socket", it.data.in("run/link-node.sock"),
                         "--templates",   templates,
                         "--uid-base",    std::to_string(it.users.base),
                         "--accel",       options.accel,
                         "--backend",     options.backend};
  auto add = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    node.spec.arguments.emplace_back(flag);
    node.spec.arguments.push_back(value);
  };
  add("--recipes", it.siblings.recipes);
  add("--spaced", it.siblings.spaced);

  Service control{{"space-control",
                   it.siblings.control,
                   {},
                   it.users.control(),
                   {it.api.fd.get(), it.state.get(), it.run.get()}},
                  kControlGrace};
  control.spec.arguments = {"--api-fd",
                            number(0),
                            "--state-fd",
                            number(1),
                            "--run-fd",
                            number(2),
                            "--admin-key-sha256",
                            sha256_hex(it.key),
                            "--url",
                            options.url.empty() ? it.api.url : options.url};
  if (!it.siblings.openapi.empty()) {
    control.spec.arguments.emplace_back("--openapi");
    control.spec.arguments.push_back("/proc/self/fd/" + number(2) + "/openapi.yaml");
  }
  return {std::move(link), std::move(node), std::move(control)};
}

std::string list(const std::vector<std::string>& ids) {
  std::string out;
  for (const auto& id : ids) out += (out.empty() ? "" : ", ") + escape(id);
  return out;
}

// Waits until the platform serves; false when it was told to end before.
Task<Result<bool>> become_ready(Supervisor& supervisor, const Prepared& it) {
  auto began = std::chrono::steady_clock::now();
  auto next_word = began + 10s;
  Health health;
  for (;;) {
    if (supervisor.ending()) co_return false;
    health = co_await ask_health(it.api.local_url);
    if (health.ready()) break;
    auto now = std::chrono::steady_clock::now();
    std::string waits = !health.serving ? "space-control" : !health.node ? "space-node" : "space-link";
    if (now - began > kReadyLimit) {
      co_return make_error(Code::kDeadlineExceeded, "supervise.not_ready",
                           waits + " is not ready after " + std::to_string(kReadyLimit.count()) +
                               " s; its log is " + it.data.in("log/") + waits + ".log");
    }
    if (now > next_word) {
      say("waiting for " + waits);
      next_word = now + 10s;
    }
    co_await async::sleep_for(30ms);
  }
  auto deadline = std::chrono::steady_clock::now() + kRecoveryLimit;
  Recovery recovery;
  while (!recovery.known && !supervisor.ending() && std::chrono::steady_clock::now() < deadline) {
    recovery = co_await ask_recovery(it.api.local_url, it.key);
    if (!recovery.known) co_await async::sleep_for(50ms);
  }
  if (!recovery.adopted.empty())
    say("adopted " + std::to_string(recovery.adopted.size()) +
        " running sandboxes: " + list(recovery.adopted));
  if (!recovery.destroyed.empty()) {
    say("destroyed the remains of " + std::to_string(recovery.destroyed.size()) +
        " sandboxes: " + list(recovery.destroyed));
  }
  co_return true;
}

Task<void> supervise(async::Loop& loop, const Prepared& it, const Options& options, int& code) {
  Supervisor supervisor(loop, services(it, options), it.data.in("log"),
                        ChildrenFile(it.data.in("run/children")), Timing{}, say);
  if (auto started = co_await supervisor.start(); !started.ok()) {
    code = refuse(started.error());
    co_return;
  }
  auto ready = co_await become_ready(supervisor, it);
  if (ready.ok() && *ready) {
    std::string url = options.url.empty() ? it.api.url : options.url;
    os::write_all(1, as_bytes("ready " + url + "\n")).ignore("nobody waits for it");
  }
  if (!ready.ok()) {
    code = refuse(ready.error());
    co_await supervisor.stop(Supervisor::Ending::kAbrupt);
    co_return;
  }
  auto ended = co_await supervisor.wait();
  code = ended.ok() ? 0 : refuse(ended.error());
  co_await supervisor.stop(ended.ok() ? Supervisor::Ending::kGraceful : Supervisor::Ending::kAbrupt);
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  auto request = parse_arguments(arguments);
  if (!request.ok()) return refuse(request.error());
  if (request->action != Request::Action::kRun) {
    os::write_all(1, as_bytes(request->text)).ignore("nobody is there to read it");
    return 0;
  }
  ::signal(SIGHUP, SIG_IGN);  // a terminal that closes is no reason to end
  auto prepared = prepare(request->options);
  if (!prepared.ok()) return refuse(prepared.error());
  if (!prepared->api.loopback)
    say("warning: the API listens beyond this machine, in plain HTTP; keep that network trusted");
  async::Loop loop(1);
  int code = 1;
  boost::asio::co_spawn(loop, supervise(loop, *prepared, request->options, code),
                        [](std::exception_ptr error) {
                          if (error) std::rethrow_exception(error);
                        });
  loop.run();
  return code;
}

}  // namespace space::supervise
