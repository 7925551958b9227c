// SPDX-License-Identifier: Apache-2.0
#pragma once
// A private platform for one benchmark: `space up` on a fresh data directory and a free loopback port, and a
// client of its API. Everything is gone when it ends. Resource type; blocking.

#include <boost/asio/co_spawn.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <string>

#include "bench/child.h"
#include "cli/api.h"
#include "lib/async/task.h"
#include "lib/http/client/client.h"
#include "lib/os/random.h"

namespace space::bench {

class Platform {
 public:
  // Errors: bench.*; what `space up` said is in the file that the error names.
  static Result<std::unique_ptr<Platform>> start();
  ~Platform();

  // Runs `work` on a loop with a client, to its end.
  template <class T>
  Result<T> run(std::function<async::Task<Result<T>>(cli::Api&)> work);

  // Creates a session and returns it. `body` is that of POST /v1/sessions.
  Result<boost::json::value> create_session(boost::json::object body);
  Result<void> kill_session(const std::string& id);

  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  Platform() = default;
  std::string directory_;
  std::string url_;
  std::string key_;
  std::unique_ptr<Child> up_;
  os::SystemRandom random_;
};

template <class T>
Result<T> Platform::run(std::function<async::Task<Result<T>>(cli::Api&)> work) {
  async::Loop loop;
  SPACE_TRY(auto endpoint, http::client::parse_url(url_));
  http::client::Client client(loop.get_executor(), endpoint,
                              {.headers = {{"Authorization", "Bearer " + key_}}});
  cli::Api api(client, random_);
  Result<T> outcome;
  boost::asio::co_spawn(loop, work(api), [&](std::exception_ptr error, Result<T> result) {
    if (error) std::rethrow_exception(error);
    outcome = std::move(result);
  });
  loop.run();
  return outcome;
}

}  // namespace space::bench
