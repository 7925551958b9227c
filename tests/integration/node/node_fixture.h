// SPDX-License-Identifier: Apache-2.0
#pragma once
// A real space-node and a real space-link as processes, on a data directory of their own, asked through
// api/node.fbs.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/node_generated.h"
#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"
#include "lib/rpc/connection.h"

namespace space::node::testing {

// A child process; SIGKILL and reaped at the end.
class Process {
 public:
  Process() = default;
  Process(const std::vector<std::string>& argv, const std::vector<int>& keep,
          const std::map<std::string, std::string>& environment, const std::string& log, uid_t uid = 0);
  ~Process() { end(SIGKILL); }
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Sends `signal` and waits for the end.
  void end(int signal);
  // Waits until it ends by itself; the raw wait status.
  int wait();

 private:
  pid_t pid_ = 0;
};

// What of a node's is on the machine. Equal before and after means that nothing leaked.
struct Footprint {
  std::size_t children = 0;  // of the node, zombies included
  std::size_t node_fds = 0;
  std::size_t link_fds = 0;
  std::size_t groups = 0;
  std::size_t files = 0;
  std::size_t mounts = 0;
  std::size_t processes = 0;  // in the node's control groups, or with its data directory in sight
  bool operator==(const Footprint&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Footprint& footprint);

class NodeFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Sub-classes: which backend, and a template called "test".
  virtual std::vector<std::string> backend_arguments();
  virtual void make_template(const std::string& dir);

  void start_link();
  void start_node(const std::map<std::string, std::string>& environment = {});
  void restart_node(int signal, const std::map<std::string, std::string>& environment = {});

  // One call with all its replies.
  Result<std::vector<Bytes>> call(Bytes request, std::chrono::milliseconds limit = std::chrono::seconds(60));
  Result<nodeapi::SandboxInfoT> create(const std::string& sandbox,
                                       const std::function<void(nodeapi::CreateSandboxT&)>& change = {});
  Result<nodeapi::DestroyedT> destroy(const std::string& sandbox, std::uint32_t grace_ms = 0);
  std::vector<nodeapi::SandboxInfoT> list();
  // The first event of a new watch.
  nodeapi::EventT recovered();
  // Watches until an event of this sandbox comes; `during` runs once the watch is there.
  Result<nodeapi::EventT> ended(const std::string& sandbox, const std::function<void()>& during);

  std::string new_id() { return random_.id_text(); }
  [[nodiscard]] std::string node_dir() const { return dir_ + "/node"; }
  [[nodiscard]] std::string node_id() const;
  Footprint footprint();
  [[nodiscard]] std::string log_text() const;
  // Nothing of any sandbox is left.
  void expect_nothing_left();

  std::string dir_;
  os::SystemRandom random_;
  Process node_;
  Process link_;
  os::Fd node_listener_;
  os::Fd link_node_listener_;
  os::Fd link_control_listener_;

 private:
  rpc::Connection& connection(async::Loop& loop);
};

}  // namespace space::node::testing
