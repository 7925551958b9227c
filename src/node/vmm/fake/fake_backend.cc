// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/fake/fake_backend.h"

#include <limits.h>
#include <stdlib.h>

#include "lib/base/size.h"
#include "lib/os/file.h"

namespace space::node::vmm::fake {
namespace {

constexpr std::uint64_t kOverhead = 32 * kMiB;
constexpr std::uint32_t kTasks = 512;  // what the tests run in it are processes here

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeOptions options) : options_(std::move(options)) {}

  [[nodiscard]] std::string name() const override { return "fake"; }
  [[nodiscard]] Capabilities capabilities() const override {
    Capabilities capabilities;
    capabilities.architecture = "x86_64";
    capabilities.isolation = Isolation::kProcess;
    return capabilities;
  }
  [[nodiscard]] std::uint64_t overhead_bytes(const Resources&) const override { return kOverhead; }
  [[nodiscard]] std::uint32_t max_tasks(const Resources&) const override { return kTasks; }

  Result<void> fill(const MachineSpec&, const slot::Slot& slot) override {
    return os::make_directory(slot.file("scratch"), 0755);
  }

  Result<slot::JailProcess> start(const MachineSpec& spec, const slot::Slot& slot,
                                  std::vector<os::Fd> sockets) override {
    slot::JailPlan plan;
    plan.root_kind = slot::RootKind::kDisposable;
    plan.scratch = slot.file("scratch");
    plan.hostname = spec.hostname.empty() ? "sandbox" : spec.hostname;
    plan.syscalls = slot::SyscallProfile::kNone;
    plan.argv = {options_.self, "fake-vmm", options_.spaced};
    plan.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                        "LC_ALL=C.UTF-8"};
    std::vector<int> inherited;
    for (const auto& socket : sockets) inherited.push_back(socket.get());
    return slot::start_jail(options_.self, plan, inherited);
  }

 private:
  FakeOptions options_;
};

Result<std::string> absolute(const std::string& path) {
  char resolved[PATH_MAX];
  if (::realpath(path.c_str(), resolved) == nullptr) {
    return make_error(Code::kFailedPrecondition, "node.no_spaced",
                      "the fake backend needs " + path + ", which isn't there");
  }
  return std::string(resolved);
}

}  // namespace

Result<std::unique_ptr<Backend>> open_fake(const FakeOptions& options) {
  FakeOptions complete;
  SPACE_TRY(complete.self, absolute(options.self));
  SPACE_TRY(complete.spaced, absolute(options.spaced));
  return std::unique_ptr<Backend>(std::make_unique<FakeBackend>(std::move(complete)));
}

}  // namespace space::node::vmm::fake
