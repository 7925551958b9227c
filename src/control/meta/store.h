// SPDX-License-Identifier: Apache-2.0
#pragma once
// The database as the loop sees it: work goes to one thread and comes back as a task.
//
// Work that waits at the same time is run as one batch in one transaction, each piece in a savepoint of its
// own, so that many writers share one sync to disk. A piece that fails is rolled back alone. When a task
// completes with success, what it wrote is durable.
//
// Resource type; one loop. Work runs on the database thread: it takes what it needs by value and touches
// nothing else. A caller that is cancelled leaves its work running to its end.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "control/meta/database.h"
#include "lib/async/blocking_pool.h"
#include "lib/async/event.h"
#include "lib/async/task_scope.h"

namespace space::control::meta {

class Store {
 public:
  // Opens and migrates the database. Errors: those of Database::open and migrate.
  static Result<std::unique_ptr<Store>> open(const async::Executor& executor, const std::string& path);
  Store(const async::Executor& executor, std::unique_ptr<Database> database);

  // `work`: Result<T>(Database&).
  template <class Work>
  async::Task<std::invoke_result_t<Work, Database&>> write(Work work) {
    return submit(std::move(work), Access::kWrite);
  }
  template <class Work>
  async::Task<std::invoke_result_t<Work, Database&>> read(Work work) {
    return submit(std::move(work), Access::kRead);
  }
  // Waits for the work that was accepted. The caller makes sure that no more comes.
  async::Task<void> stop();

 private:
  enum class Access { kRead, kWrite };
  struct Job {
    explicit Job(const async::Executor& executor, Access job_access)
        : access(job_access), changed(executor) {}
    virtual ~Job() = default;
    virtual bool run(Database& database) = 0;  // false: roll back
    virtual void fail(const Error& error) = 0;
    Access access;
    bool over = false;
    async::Event changed;
  };
  template <class Work>
  struct JobOf final : Job {
    using Outcome = std::invoke_result_t<Work, Database&>;
    JobOf(const async::Executor& executor, Access job_access, Work job_work)
        : Job(executor, job_access), work(std::move(job_work)) {}
    bool run(Database& database) override {
      outcome.emplace(work(database));
      return outcome->ok();
    }
    void fail(const Error& error) override { outcome.emplace(error); }
    Work work;
    std::optional<Outcome> outcome;
  };

  template <class Work>
  async::Task<std::invoke_result_t<Work, Database&>> submit(Work work, Access access) {
    auto job = std::make_shared<JobOf<Work>>(executor_, access, std::move(work));
    enqueue(job);
    while (!job->over) co_await job->changed.wait();
    co_return std::move(*job->outcome);
  }
  void enqueue(std::shared_ptr<Job> job);
  async::Task<void> work_off();
  static void run_batch(Database& database, std::vector<std::shared_ptr<Job>>& batch);

  async::Executor executor_;
  std::unique_ptr<Database> database_;
  async::BlockingPool thread_{1};
  std::vector<std::shared_ptr<Job>> queue_;
  bool working_ = false;
  async::TaskScope scope_;
};

}  // namespace space::control::meta
