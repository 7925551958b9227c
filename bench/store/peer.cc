// SPDX-License-Identifier: Apache-2.0
#include "bench/store/peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "lib/os/file.h"

namespace space::bench {
namespace {

// Seconds that a program took. Errors: bench.peer when it failed.
Result<double> run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> owned = environment;
  std::vector<char*> envp;
  for (std::string& variable : owned) envp.push_back(variable.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  auto start = std::chrono::steady_clock::now();
  pid_t pid = 0;
  int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return errno_error(error, "bench.peer", "start " + arguments[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return make_error(Code::kInternal, "bench.peer", arguments[0] + " " + arguments[1] + " failed");
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<std::optional<PeerTimes>> time_restic(const std::string& folder, const std::string& file) {
  if (!os::exists("/usr/bin/restic")) return std::optional<PeerTimes>();
  std::vector<std::string> environment{"PATH=/usr/bin:/bin", "HOME=" + folder, "RESTIC_PASSWORD=benchmark",
                                       "RESTIC_REPOSITORY=" + folder + "/repository",
                                       "RESTIC_CACHE_DIR=" + folder + "/cache"};
  SPACE_TRY(double init, run({"restic", "init"}, environment));
  (void)init;
  PeerTimes times;
  SPACE_TRY(times.startup_s, run({"restic", "snapshots"}, environment));
  SPACE_TRY(times.backup_s, run({"restic", "backup", "--quiet", file}, environment));
  SPACE_TRY(times.restore_s,
            run({"restic", "restore", "latest", "--quiet", "--target", folder + "/restored"}, environment));
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(folder + "/repository", error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) times.stored_bytes += it->file_size(error);
  }
  return std::optional<PeerTimes>(times);
}

}  // namespace space::bench
