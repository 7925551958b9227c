// SPDX-License-Identifier: Apache-2.0
#include "control/control.h"

#include "control/api/api.h"

namespace space::control {

Control::Control(const async::Executor& executor, ControlOptions options, const Clock& clock,
                 os::Random& random, const obs::Log& log)
    : executor_(executor),
      options_(std::move(options)),
      clock_(clock),
      random_(random),
      log_(log),
      scope_(executor) {}

Control::~Control() = default;

async::Task<Result<void>> Control::start() {
  SPACE_CO_TRY(store_, meta::Store::open(executor_, options_.state_directory + "/meta.db"));
  node_ = std::make_unique<upstream::NodeClient>(executor_, random_, options_.connect_node,
                                                 options_.node_patience);
  link_ = std::make_unique<upstream::LinkClient>(executor_, random_, options_.connect_link, options_.link);
  tails_ = std::make_unique<operations::ConsoleTails>(options_.state_directory + "/logs");
  engine_ = std::make_unique<operations::Engine>(executor_, *store_, *node_, *tails_, clock_, random_, log_);
  watcher_ = std::make_unique<NodeWatcher>(*node_, *engine_, clock_, log_);
  keyring_ = std::make_unique<Keyring>(*store_, clock_);
  remembered_ = std::make_unique<Remembered>(executor_, *store_, clock_);
  SPACE_CO_CHECK_OK(co_await keyring_->load(options_.admin_key_sha256));
  SPACE_CO_CHECK_OK(co_await engine_->resume());
  scope_.spawn(watcher_->run());
  scope_.spawn(expire_loop());
  scope_.spawn(reconcile_loop());
  api_ =
      std::make_unique<api::Api>(api::Services{*engine_, *store_, *link_, *watcher_, *keyring_, *remembered_,
                                               *tails_, random_, log_, options_.version, options_.openapi});
  api::Api* api = api_.get();
  server_ = std::make_unique<http::Server>(
      executor_, std::move(options_.api_listener),
      [api](http::Exchange& exchange) { return api->answer(exchange); }, &api::Api::error_page,
      options_.http);
  server_->start();
  co_return Result<void>();
}

async::Task<void> Control::stop(Sessions sessions) {
  log_.info("stopping");
  server_->stop_accepting();
  if (sessions == Sessions::kKill) co_await engine_->stop_sessions(options_.session_grace);
  co_await server_->stop(options_.request_grace);
  co_await scope_.stop();
  co_await engine_->stop();
  co_await link_->stop();
  co_await node_->stop();
  co_await store_->stop();
  log_.info("stopped");
}

async::Task<void> Control::expire_loop() {
  for (;;) {
    co_await async::sleep_for(options_.expiry_every);
    co_await engine_->expire_due();
  }
}

async::Task<void> Control::reconcile_loop() {
  for (;;) {
    co_await async::sleep_for(options_.reconcile_every);
    if (!watcher_->connected()) continue;
    auto outcome = co_await engine_->reconcile();
    if (!outcome.ok()) log_.warning("reconcile_failed", {{"error", outcome.error().describe()}});
  }
}

}  // namespace space::control
