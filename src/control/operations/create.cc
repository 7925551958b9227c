// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/meta/operations.h"
#include "control/meta/sessions.h"
#include "control/operations/engine.h"

namespace space::control::operations {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kRetryEvery{100};
// Left of the deadline for control's own work after the node has given up.
constexpr milliseconds kMargin = std::chrono::seconds(2);
// A node that is away for longer is not just restarting.
constexpr milliseconds kNodePatience = std::chrono::seconds(30);

Error stopping() {
  return make_error(Code::kUnavailable, "control.stopping", "the platform is stopping; try again later");
}

nodeapi::CreateSandboxT node_request(const meta::SessionRow& session, milliseconds limit) {
  nodeapi::CreateSandboxT request;
  request.sandbox = session.sandbox.str();
  request.session = session.id.str();
  request.tenant = session.tenant.str();
  request.generation = session.generation;
  request.template_name = session.template_name;
  request.resources = std::make_unique<nodeapi::ResourcesT>();
  request.resources->vcpus = session.resources.vcpus;
  request.resources->memory_bytes = session.resources.memory_bytes;
  request.resources->disk_bytes = session.resources.disk_bytes;
  request.hostname = session.name.value_or(session.id.str());
  request.deadline_ms = static_cast<std::uint32_t>(limit.count());
  return request;
}

}  // namespace

async::Task<Result<model::Resources>> Engine::resolve(model::SessionRequest request) {
  SPACE_CO_TRY(auto all, co_await templates());
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const auto& one) { return one.name == request.template_name; });
  if (found == all.end()) {
    Error error = make_error(Code::kNotFound, "control.no_such_template",
                             "there is no template of this name; `space template ls` shows them");
    error.field = "template";
    co_return error;
  }
  if (found->state != nodeapi::TemplateState::Ready) {
    Error error = make_error(Code::kFailedPrecondition, "control.template_not_ready",
                             "the template is not built yet; `space template build` builds it");
    error.field = "template";
    co_return error;
  }
  SPACE_CO_TRY(auto info, co_await node_info());
  co_return model::resolve_resources(request, {found->vcpus, found->memory_bytes, found->disk_bytes},
                                     {info.cpus, info.memory_bytes});
}

std::shared_ptr<Engine::Creation> Engine::register_creation(const SessionId& session) {
  auto creation = std::make_shared<Creation>(executor_);
  creations_[session] = creation;
  return creation;
}

async::Task<Result<Accepted>> Engine::create_session(TenantId tenant, model::SessionRequest request,
                                                     std::optional<IdempotencyKey> key) {
  using Known = std::optional<Accepted>;
  auto known_accepted = [tenant, key](meta::Database& database) -> Result<Known> {
    SPACE_TRY(auto known, replayed(database, tenant, key));
    if (!known) return Known();
    SPACE_TRY(auto operation, meta::get_operation(database, tenant, *known));
    SPACE_TRY(auto session,
              meta::get_session(database, tenant, operation.session ? operation.session->str() : ""));
    return Known(Accepted{operation.id, std::move(session)});
  };
  // A retry is answered from the journal, whatever has become of template and node since.
  if (key) {
    SPACE_CO_TRY(auto known, co_await store_.read(known_accepted));
    if (known) co_return std::move(*known);
  }
  if (stopping_) co_return stopping();
  SPACE_CO_CHECK_OK(model::check_request(request));
  SPACE_CO_TRY(auto resources, co_await resolve(request));
  if (stopping_) co_return stopping();

  meta::OperationRow operation = new_operation(tenant, model::OperationKind::kCreateSession);
  meta::SessionRow session;
  session.tenant = tenant;
  session.id = random_.id<SessionId>();
  session.name = request.name;
  session.template_name = request.template_name;
  session.resources = resources;
  session.ttl_seconds = request.ttl_seconds;
  session.labels = request.labels;
  session.created = operation.created;
  session.expires = operation.created + std::chrono::seconds(request.ttl_seconds);
  session.sandbox = random_.id<SandboxId>();
  operation.session = session.id;

  // Registered before it can be seen, so that no kill comes between.
  auto creation = register_creation(session.id);
  auto written = co_await store_.write(
      [operation, session, key, known_accepted](meta::Database& database) -> Result<Known> {
        SPACE_TRY(auto known, known_accepted(database));  // the same key at the same time
        if (known) return known;
        SPACE_CHECK_OK(meta::insert_session(database, session));
        SPACE_CHECK_OK(meta::insert_operation(database, operation));
        SPACE_CHECK_OK(meta::append_step(database, session.tenant, operation.id, operation.created,
                                         "accepted", "sandbox " + session.sandbox.str()));
        SPACE_CHECK_OK(remember(database, session.tenant, operation.created, key, operation.id));
        return Known();
      });
  if (!written.ok() || *written) {
    creations_.erase(session.id);
    if (!written.ok()) co_return std::move(written).error();
    co_return std::move(**written);
  }
  log_.info(
      "session_accepted",
      {{"session", session.id.str()}, {"sandbox", session.sandbox.str()}, {"operation", operation.id.str()}});
  scope_.spawn(run_create(operation, session, creation));
  co_return Accepted{operation.id, std::move(session)};
}

async::Task<Result<nodeapi::SandboxInfoT>> Engine::create_at_node(meta::OperationRow operation,
                                                                  meta::SessionRow session) {
  std::optional<Monotonic> away_since;
  for (;;) {
    milliseconds left = time_left(operation);
    if (left <= kMargin) {
      co_return make_error(Code::kDeadlineExceeded, "control.create_deadline",
                           "the sandbox did not start in the time allowed");
    }
    auto outcome = co_await node_.create_sandbox(node_request(session, left - kMargin), left - kMargin);
    if (outcome.ok()) co_return outcome;
    if (outcome.error().reason == "rpc.deadline") {
      co_return make_error(Code::kDeadlineExceeded, "control.create_deadline",
                           "the sandbox did not start in the time allowed");
    }
    // The node is restarting: its creates are idempotent by the sandbox's id, so ask again.
    if (!is_connection_error(outcome.error())) co_return outcome;
    auto now = std::chrono::steady_clock::now();
    if (outcome.error().reason != "rpc.unreachable") away_since.reset();
    if (!away_since) away_since = now;
    if (now - *away_since > kNodePatience) co_return outcome;
    co_await async::sleep_for(kRetryEvery);
  }
}

namespace {

async::Task<void> until_cancelled(async::Event* changed, const bool* cancelled) {
  while (!*cancelled) co_await changed->wait();
}

}  // namespace

async::Task<void> Engine::run_create(meta::OperationRow operation, meta::SessionRow session,
                                     std::shared_ptr<Creation> creation) {
  // Whatever way this ends, a kill must not wait for it in vain.
  struct Leave {
    Engine& engine;
    SessionId session;
    std::shared_ptr<Creation> creation;
    ~Leave() {
      creation->over = true;
      creation->changed.notify_all();
      auto found = engine.creations_.find(session);
      if (found != engine.creations_.end() && found->second == creation) engine.creations_.erase(found);
    }
  } leave{*this, session.id, creation};

  Result<nodeapi::SandboxInfoT> outcome =
      make_error(Code::kAborted, "control.cancelled", "the session was killed while it was being created");
  if (!creation->cancelled) {
    using boost::asio::experimental::awaitable_operators::operator||;
    auto first = co_await (create_at_node(operation, session) ||
                           until_cancelled(&creation->changed, &creation->cancelled));
    if (first.index() == 0) outcome = std::get<0>(std::move(first));
  }
  if (!outcome.ok() &&
      (outcome.error().reason == "control.create_deadline" || is_connection_error(outcome.error()))) {
    // The node may be at it still. When it can't be told now, reconcile() finds what is left.
    (co_await node_.destroy_sandbox(session.sandbox, std::chrono::seconds(10)))
        .ignore("reconcile() destroys what has no live session");
  }
  co_await end_create(operation, session.id, std::move(outcome));
}

async::Task<void> Engine::end_create(meta::OperationRow operation, SessionId session,
                                     Result<nodeapi::SandboxInfoT> outcome) {
  WallTime now = clock_.wall();
  auto started = std::make_shared<Result<nodeapi::SandboxInfoT>>(std::move(outcome));
  std::string node = info_ ? info_->node : std::string();
  if (started->ok() && node.empty()) {
    auto info = co_await node_info();
    if (info.ok()) node = info->node;
  }
  auto written = co_await store_.write([operation, session, started, node,
                                        now](meta::Database& database) -> Result<std::optional<Error>> {
    SPACE_TRY(auto row, meta::get_session(database, operation.tenant, session.str()));
    std::optional<Error> error;
    if (started->ok()) {
      auto state = model::next(row.state, model::SessionEvent::kStarted);
      if (state) {
        const auto& sandbox = **started;
        row.state = *state;
        row.started = now;
        WallTime since =
            sandbox.started_ms == 0 ? now : WallTime(std::chrono::milliseconds(sandbox.started_ms));
        row.facts = meta::SandboxFacts{node, sandbox.backend, sandbox.acceleration, since, sandbox.adopted};
        SPACE_CHECK_OK(meta::update_session(database, row));
      } else {
        error = make_error(Code::kAborted, "control.cancelled",
                           "the session was killed while it was being created");
      }
    } else {
      error = started->error();
      if (auto state = model::next(row.state, model::SessionEvent::kCreateFailed)) {
        row.state = *state;
        row.status = meta::Status{error->reason, error->message};
        row.ended = now;
        SPACE_CHECK_OK(meta::update_session(database, row));
      }
    }
    SPACE_CHECK_OK(meta::append_step(database, operation.tenant, operation.id, now,
                                     error ? "failed" : "running",
                                     error ? error->describe() : "the sandbox answers"));
    SPACE_CHECK_OK(meta::end_operation(database, operation.tenant, operation.id, now, error));
    return error;
  });
  if (!written.ok()) {
    log_.error("operation_not_recorded",
               {{"operation", operation.id.str()}, {"error", written.error().describe()}});
  } else if (*written) {
    log_.warning("session_not_created", {{"session", session.str()}, {"error", (*written)->describe()}});
  } else {
    log_.info("session_running", {{"session", session.str()}});
  }
  wake(operation.id);
}

}  // namespace space::control::operations
