// SPDX-License-Identifier: Apache-2.0
#include "node/agent.h"

#include "lib/os/file.h"
#include "node/recovery.h"

namespace space::node {
namespace {

// Longer than one round of killing and removing may take.
constexpr auto kDestroyPatience = std::chrono::seconds(30);

struct Room {
  tmpl::StoreEntry entry;
  std::uint64_t disk_free_bytes = 0;
};

Result<Room> look_for_room(tmpl::TemplateStore& store, const std::string& name,
                           const std::string& directory) {
  Room room;
  SPACE_TRY(room.entry, store.ready(name));
  SPACE_TRY(room.disk_free_bytes, os::free_bytes(directory));
  return room;
}

}  // namespace

Agent::Agent(Environment& environment, slot::UidPool& uids, tmpl::TemplateStore& store,
             TemplateWork& templates, std::string version)
    : environment_(environment),
      uids_(uids),
      store_(store),
      templates_(templates),
      version_(std::move(version)),
      hub_(environment.executor),
      changed_(environment.executor),
      scope_(environment.executor) {}
Agent::~Agent() = default;

void Agent::start() {
  environment_.link.watch([this](const LinkEvent& event) { on_link_event(event); },
                          [this] { on_link_connected(); });
  scope_.spawn(recover());
}

async::Task<void> Agent::stop() {
  co_await templates_.stop();
  co_await scope_.stop();
}

async::Task<void> Agent::wait_recovered() {
  while (!recovered_) co_await changed_.wait();
}

// ---- recovery ----

async::Task<void> Agent::recover() {
  auto found = co_await environment_.pool.run([this] { return find_remains(environment_); });
  NodeEvent event;
  event.kind = NodeEvent::Kind::kRecovered;
  Remains remains;
  if (found.ok()) {
    remains = std::move(*found);
  } else {
    environment_.log.error("recovery_failed", {{"error", found.error().describe()}});
    event.detail = found.error().message;
  }
  std::vector<std::shared_ptr<SandboxLife>> all;
  for (auto& record : remains.records) {
    auto uid = uids_.take_this(record.uid);
    if (!uid.ok()) {
      environment_.log.warning("record_refused",
                               {{"sandbox", record.sandbox.str()}, {"error", uid.error().describe()}});
      record.state = SandboxRecord::State::kStopping;
      record.uid = 0;
    }
    auto life = std::make_shared<SandboxLife>(environment_, std::move(record));
    lives_.emplace(life->record().sandbox, life);
    all.push_back(life);
    scope_.spawn(live(std::move(life)));
  }
  event.destroyed = co_await environment_.pool.run(
      [this, &remains] { return remove_rubbish(environment_, remains.rubbish); });
  for (auto& life : all) {
    co_await life->wait_started();
    if (life->start_outcome().ok()) {
      event.adopted.push_back(life->record().sandbox.str());
    } else {
      co_await life->wait_gone(std::chrono::steady_clock::now() + kDestroyPatience);
      event.destroyed.push_back(life->record().sandbox.str());
    }
  }
  environment_.log.info("recovered", {{"adopted", std::to_string(event.adopted.size())},
                                      {"destroyed", std::to_string(event.destroyed.size())}});
  hub_.recovered(std::move(event));
  recovered_ = true;
  changed_.notify_all();
}

async::Task<void> Agent::live(std::shared_ptr<SandboxLife> life) {
  co_await life->run();
  const auto& record = life->record();
  lives_.erase(record.sandbox);
  if (record.uid != 0) uids_.give_back(record.uid);
  if (!life->ending()) co_return;
  NodeEvent event;
  event.kind = NodeEvent::Kind::kSandboxEnded;
  event.sandbox = record.sandbox;
  event.reason = life->ending()->reason;
  event.detail = life->ending()->detail;
  event.console_tail = life->console_tail();
  hub_.raise(event);
}

// ---- sandboxes ----

async::Task<Result<SandboxInfo>> Agent::started(std::shared_ptr<SandboxLife> life) {
  co_await life->wait_started();
  SPACE_CO_CHECK_OK(life->start_outcome());
  if (life->phase() != SandboxLife::Phase::kRunning)
    co_return make_error(Code::kAborted, "node.destroyed", "the sandbox has ended");
  co_return life->info();
}

async::Task<Result<SandboxInfo>> Agent::create(CreateSandbox request) {
  co_await wait_recovered();
  if (auto known = lives_.find(request.sandbox); known != lives_.end()) {
    if (known->second->record().session != request.session) {
      co_return make_error(Code::kAlreadyExists, "node.sandbox_differs",
                           "a sandbox with this id belongs to another session");
    }
    co_return co_await started(known->second);
  }
  SPACE_CO_TRY(Room room, co_await environment_.pool.run([this, name = request.template_name] {
    return look_for_room(store_, name, environment_.sandboxes_dir);
  }));
  std::uint64_t overhead = environment_.backend.overhead_bytes(request.resources);
  SPACE_CO_CHECK_OK(
      validate(request.resources, overhead, room.entry.manifest->disk_bytes, environment_.machine));
  // From here to the entry in the table nothing is awaited, so two callers can't promise the same memory or
  // id.
  if (lives_.contains(request.sandbox)) co_return co_await started(lives_.at(request.sandbox));
  Load load{memory_committed_bytes(), room.disk_free_bytes, static_cast<std::uint32_t>(lives_.size())};
  SPACE_CO_CHECK_OK(admit(request.resources, overhead, environment_.machine, load));
  SandboxRecord record;
  SPACE_CO_TRY(record.uid, uids_.take());
  record.sandbox = request.sandbox;
  record.session = request.session;
  record.tenant = request.tenant;
  record.generation = request.generation;
  record.template_name = request.template_name;
  record.resources = request.resources;
  record.overhead_bytes = overhead;
  record.backend = environment_.backend.name();
  record.acceleration = vmm::to_string(environment_.backend.capabilities().acceleration);
  record.started = environment_.clock.wall();
  vmm::MachineSpec spec;
  spec.resources = request.resources;
  spec.hostname = request.hostname;
  spec.boot = {room.entry.dir + "/" + tmpl::kDiskFile, room.entry.dir + "/" + tmpl::kKernelFile,
               room.entry.dir + "/" + tmpl::kInitramfsFile};
  if (room.entry.manifest->init == tmpl::Init::kSystemd) spec.init = tmpl::to_string(tmpl::Init::kSystemd);
  auto life = std::make_shared<SandboxLife>(environment_, std::move(record), std::move(spec), request.limit);
  lives_.emplace(request.sandbox, life);
  scope_.spawn(live(life));
  auto outcome = co_await started(life);
  // On an error nothing is left when the caller hears of it.
  if (!outcome.ok()) co_await life->wait_gone(std::chrono::steady_clock::now() + kDestroyPatience);
  co_return outcome;
}

async::Task<Result<DestroyedSandbox>> Agent::destroy(SandboxId sandbox, std::chrono::milliseconds grace) {
  DestroyedSandbox destroyed;
  // Also while recovery runs: what it has found is in the table, what it has not found yet it has to finish
  // first.
  if (!lives_.contains(sandbox)) co_await wait_recovered();
  auto known = lives_.find(sandbox);
  if (known == lives_.end()) co_return destroyed;
  auto life = known->second;
  destroyed.existed = true;
  life->stop(grace);
  if (!co_await life->wait_gone(std::chrono::steady_clock::now() + grace + kDestroyPatience)) {
    co_return make_error(Code::kDeadlineExceeded, "node.destroy_slow",
                         "the sandbox is being destroyed but is not gone yet");
  }
  destroyed.console_tail = life->console_tail();
  co_return destroyed;
}

std::vector<SandboxInfo> Agent::list() const {
  std::vector<SandboxInfo> all;
  for (const auto& [id, life] : lives_) all.push_back(life->info());
  return all;
}

std::uint64_t Agent::memory_committed_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, life] : lives_) sum += life->memory_bytes();
  return sum;
}

async::Task<Result<NodeInfo>> Agent::info() {
  NodeInfo info;
  info.node = environment_.node;
  info.version = version_;
  info.backend = environment_.backend.name();
  info.acceleration = vmm::to_string(environment_.backend.capabilities().acceleration);
  info.cpus = environment_.machine.cpus;
  info.memory_bytes = environment_.machine.memory_bytes;
  info.memory_committed_bytes = memory_committed_bytes();
  info.sandboxes = static_cast<std::uint32_t>(lives_.size());
  SPACE_CO_TRY(info.disk_free_bytes,
               co_await environment_.pool.run([this] { return os::free_bytes(environment_.sandboxes_dir); }));
  co_return info;
}

async::Task<Result<void>> Agent::remove_template(std::string name) {
  co_await wait_recovered();
  for (const auto& [id, life] : lives_) {
    if (life->record().template_name == name) {
      co_return make_error(Code::kFailedPrecondition, "node.template_in_use",
                           "sandbox " + id.str() + " runs from template " + name + "; end it first");
    }
  }
  co_return co_await templates_.remove(std::move(name));
}

// ---- link ----

void Agent::on_link_event(const LinkEvent& event) {
  if (auto known = lives_.find(event.sandbox); known != lives_.end()) known->second->on_link_event(event);
}

void Agent::on_link_connected() {
  // Those that are still being attached notice the loss themselves.
  for (auto& [id, life] : lives_) {
    if (life->phase() == SandboxLife::Phase::kRunning && life->attached()) scope_.spawn(life->reattach());
  }
}

}  // namespace space::node
