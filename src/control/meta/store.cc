// SPDX-License-Identifier: Apache-2.0
#include "control/meta/store.h"

#include <algorithm>

#include "control/meta/migrations.h"

namespace space::control::meta {

Result<std::unique_ptr<Store>> Store::open(const async::Executor& executor, const std::string& path) {
  SPACE_TRY(auto database, Database::open(path));
  SPACE_CHECK_OK(migrate(*database));
  return std::make_unique<Store>(executor, std::move(database));
}

Store::Store(const async::Executor& executor, std::unique_ptr<Database> database)
    : executor_(executor), database_(std::move(database)), scope_(executor) {}

void Store::enqueue(std::shared_ptr<Job> job) {
  queue_.push_back(std::move(job));
  if (working_) return;
  working_ = true;
  scope_.spawn(work_off());
}

async::Task<void> Store::work_off() {
  while (!queue_.empty()) {
    auto batch = std::make_shared<std::vector<std::shared_ptr<Job>>>(std::move(queue_));
    queue_.clear();
    Database* database = database_.get();
    co_await thread_.run([database, batch] {
      run_batch(*database, *batch);
      return 0;
    });
    for (auto& job : *batch) {
      job->over = true;
      job->changed.notify_all();
    }
  }
  working_ = false;
}

void Store::run_batch(Database& database, std::vector<std::shared_ptr<Job>>& batch) {
  bool writes =
      std::any_of(batch.begin(), batch.end(), [](const auto& job) { return job->access == Access::kWrite; });
  auto fail_all = [&](const Error& error) {
    for (auto& job : batch) job->fail(error);
  };
  if (!writes) {
    for (auto& job : batch) job->run(database);
    return;
  }
  if (auto begun = database.execute("BEGIN IMMEDIATE"); !begun.ok()) return fail_all(begun.error());
  for (auto& job : batch) {
    if (job->access == Access::kRead) {
      job->run(database);
      continue;
    }
    auto marked = database.execute("SAVEPOINT job");
    if (!marked.ok()) {
      job->fail(marked.error());
      continue;
    }
    if (!job->run(database))
      database.execute("ROLLBACK TO job").ignore("a full disk may have rolled back everything; COMMIT tells");
    database.execute("RELEASE job").ignore("as above");
  }
  if (auto committed = database.execute("COMMIT"); !committed.ok()) {
    database.execute("ROLLBACK").ignore("the transaction may have ended by itself");
    fail_all(committed.error());
  }
}

async::Task<void> Store::stop() {
  co_await scope_.drain();
}

}  // namespace space::control::meta
