// SPDX-License-Identifier: Apache-2.0
#include "node/node.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

#include "lib/os/confine/capabilities.h"
#include "lib/os/file.h"
#include "lib/os/random.h"
#include "lib/rpc/server.h"
#include "node/agent.h"
#include "node/kept_capabilities.h"
#include "node/service.h"
#include "node/slot/cgroup_mounts.h"
#include "node/template/build_main.h"
#include "node/vmm/fake/fake_backend.h"
#include "node/vmm/qemu/qemu_backend.h"
#include "node/vmm/tsc.h"

#ifndef SPACE_VERSION
#define SPACE_VERSION "0.1.0"
#endif

namespace space::node {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr std::size_t kBlockingThreads = 4;

// The id that `space up` gave this node; made here when the agent is used alone.
Result<std::string> node_id(const std::string& data, os::Random& random) {
  std::string path = data + "/node.id";
  if (!os::exists(path))
    SPACE_CHECK_OK(os::write_file_atomic(path, random.id_text() + "\n", os::Durability::kSynced, 0644));
  SPACE_TRY(std::string text, os::read_file(path, 128));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  SPACE_TRY(NodeId id, NodeId::parse(text));
  return id.str();
}

Machine this_machine(const Options& options) {
  Machine machine;
  machine.cpus = std::max(1U, std::thread::hardware_concurrency());
  struct sysinfo info{};
  ::sysinfo(&info);
  machine.memory_bytes = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  machine.memory_reserve_bytes = default_memory_reserve(machine.memory_bytes);
  machine.max_sandboxes = options.max_sandboxes;
  return machine;
}

std::string own_path() {
  char path[4096];
  ssize_t length = ::readlink(kSelf, path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string(kSelf);
}

Result<std::unique_ptr<vmm::Backend>> open_backend(const Options& options, const std::string& node_dir,
                                                   const obs::Log& log) {
  if (options.backend == BackendKind::kFake) return vmm::fake::open_fake({own_path(), options.spaced});
  vmm::qemu::QemuOptions qemu;
  qemu.node_dir = node_dir;
  SPACE_TRY(qemu.acceleration, vmm::choose_acceleration(options.acceleration, kSelf));
  qemu.tsc_khz = vmm::measure_tsc_khz();
  log.info("acceleration", {{"chosen", std::string(vmm::to_string(qemu.acceleration))},
                            {"tsc_khz", std::to_string(qemu.tsc_khz)}});
  return vmm::qemu::open_qemu(qemu);
}

Result<void> check_listener(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening != 1) {
    return make_error(Code::kInvalidArgument, "node.bad_option",
                      "--listen-fd " + std::to_string(fd) + " is no listening socket");
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return {};
}

async::Task<void> serve(Agent& agent, rpc::Server& server, LinkClient& link, boost::asio::signal_set& signals,
                        const obs::Log& log) {
  agent.start();
  server.start();
  log.info("serving");
  co_await signals.async_wait(boost::asio::use_awaitable);
  log.info("stopping");
  co_await server.stop();
  co_await agent.stop();
  co_await link.stop();
}

Result<void> run(const Options& options, const Clock& clock, const obs::Log& log) {
  if (::geteuid() != 0)
    return make_error(Code::kPermissionDenied, "node.not_root",
                      "the node needs root, to make namespaces and users for sandboxes");
  ::umask(0022);
  SPACE_CHECK_OK(check_listener(options.listen_fd));
  // Before there are threads: capabilities belong to a thread.
  SPACE_CHECK_OK(os::confine::keep_only_capabilities(kKeptCapabilities));
  os::SystemRandom random;
  SPACE_TRY(std::string id, node_id(options.data, random));
  std::string node_dir = options.data + "/node";
  std::string sandboxes_dir = node_dir + "/sandboxes";
  SPACE_CHECK_OK(os::make_directory(node_dir, 0755));
  SPACE_CHECK_OK(os::make_directory(sandboxes_dir, 0700));
  SPACE_CHECK_OK(os::make_directory(node_dir + "/templates", 0755));
  SPACE_TRY(auto layout, slot::find_cgroup_layout());
  SPACE_TRY(auto cgroups, slot::Cgroups::open(layout, id));
  SPACE_TRY(auto backend, open_backend(options, node_dir, log));

  async::Loop loop(1);
  async::BlockingPool pool(kBlockingThreads);
  LinkClient link(loop.get_executor(), random, log, options.link_socket);
  Environment environment{loop.get_executor(),   pool, clock,        log, *backend, *cgroups, link,
                          this_machine(options), id,   sandboxes_dir};
  slot::UidPool uids(options.uid_base);
  std::vector<std::string> template_dirs = {node_dir + "/templates"};
  template_dirs.insert(template_dirs.end(), options.templates.begin(), options.templates.end());
  tmpl::TemplateStore store(template_dirs, options.recipes);
  TemplateWork templates(loop.get_executor(), pool, log, store,
                         {kSelf, node_dir + "/cache", options.spaced, options.mkinitramfs});
  Agent agent(environment, uids, store, templates, SPACE_VERSION);
  Service service(loop.get_executor(), agent);
  rpc::Server server(loop.get_executor(), os::Fd(options.listen_fd),
                     [&service](rpc::Call call) { return service.answer(std::move(call)); });
  boost::asio::signal_set signals(loop, SIGTERM, SIGINT);
  boost::asio::co_spawn(loop, serve(agent, server, link, signals, log), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
  cgroups->close();
  log.info("stopped");
  return {};
}

}  // namespace

int run_agent(const Options& options) {
  SystemClock clock;
  obs::Log log(STDERR_FILENO, "node", clock, options.level);
  auto outcome = run(options, clock, log);
  if (outcome.ok()) return 0;
  log.error("cannot_start", {{"reason", outcome.error().reason}, {"message", outcome.error().message}});
  return 1;
}

}  // namespace space::node
