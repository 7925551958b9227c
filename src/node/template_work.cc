// SPDX-License-Identifier: Apache-2.0
#include "node/template_work.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <deque>

#include "lib/os/file.h"
#include "node/process/child.h"

namespace space::node {
namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxLineBytes = 64 * 1024;
constexpr std::size_t kKeptLines = 500;
constexpr auto kEndLimit = std::chrono::seconds(10);

// What one line of the builder's --json output means.
struct Line {
  std::optional<BuildProgress> progress;
  std::optional<Error> error;
};

Line line_of(std::string_view text) {
  Line line;
  boost::system::error_code failed;
  json::value value = json::parse({text.data(), text.size()}, failed);
  const auto* object = failed ? nullptr : value.if_object();
  if (object == nullptr) return line;
  auto string_at = [](const json::object& from, std::string_view name) {
    const auto* found = from.if_contains(name);
    const auto* string = found == nullptr ? nullptr : found->if_string();
    return string == nullptr ? std::string() : std::string(*string);
  };
  if (object->contains("progress")) {
    const auto* elapsed = object->if_contains("elapsed_ms");
    boost::system::error_code no_number;
    auto ms = elapsed == nullptr ? 0 : elapsed->to_number<std::int64_t>(no_number);
    line.progress =
        BuildProgress{string_at(*object, "progress"), std::chrono::milliseconds(no_number ? 0 : ms)};
  }
  const auto* error = object->if_contains("error");
  if (error != nullptr && error->is_object()) {
    const auto& fields = error->get_object();
    line.error = Error{code_from_string(string_at(fields, "code")), string_at(fields, "reason"),
                       string_at(fields, "message"), string_at(fields, "field")};
  }
  return line;
}

}  // namespace

struct TemplateWork::Build {
  explicit Build(const async::Executor& executor) : changed(executor) {}
  std::string name;
  tmpl::StoreEntry entry;
  std::deque<BuildProgress> lines;  // the newest; `first` is the number of the front one
  std::size_t first = 0;
  bool over = false;
  Result<void> outcome;
  async::Event changed;
};

TemplateWork::TemplateWork(const async::Executor& executor, async::BlockingPool& pool, const obs::Log& log,
                           tmpl::TemplateStore& store, BuildSettings settings)
    : executor_(executor),
      pool_(pool),
      log_(log),
      store_(store),
      settings_(std::move(settings)),
      scope_(executor) {}
TemplateWork::~TemplateWork() = default;

TemplateInfo TemplateWork::info_of(const tmpl::StoreEntry& entry) const {
  TemplateInfo info;
  info.name = entry.name;
  if (entry.recipe) {
    info.description = entry.recipe->description;
    info.vcpus = entry.recipe->defaults.vcpus;
    info.memory_bytes = entry.recipe->defaults.memory_bytes;
    info.disk_bytes = entry.recipe->defaults.disk_bytes;
  }
  if (entry.manifest) {
    info.description = entry.manifest->description;
    info.vcpus = entry.manifest->defaults.vcpus;
    info.memory_bytes = entry.manifest->defaults.memory_bytes;
    info.disk_bytes = entry.manifest->disk_bytes;
    info.stored_bytes = entry.manifest->stored_bytes;
    info.digest = entry.manifest->disk_sha256;
    info.built_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(entry.manifest->built.time_since_epoch())
            .count());
  }
  info.state = entry.state == tmpl::StoreEntry::State::kReady    ? TemplateInfo::State::kReady
               : entry.state == tmpl::StoreEntry::State::kRecipe ? TemplateInfo::State::kRecipe
                                                                 : TemplateInfo::State::kFailed;
  if (entry.problem) info.reason = entry.problem->message;
  if (auto failed = failed_.find(entry.name);
      failed != failed_.end() && info.state != TemplateInfo::State::kReady) {
    info.state = TemplateInfo::State::kFailed;
    info.reason = failed->second;
  }
  if (running_.contains(entry.name)) info.state = TemplateInfo::State::kBuilding;
  return info;
}

async::Task<Result<std::vector<TemplateInfo>>> TemplateWork::list() {
  SPACE_CO_TRY(auto entries, co_await pool_.run([this] { return store_.list(); }));
  std::vector<TemplateInfo> infos;
  for (const auto& entry : entries) infos.push_back(info_of(entry));
  co_return infos;
}

async::Task<Result<TemplateInfo>> TemplateWork::build(std::string name,
                                                      std::function<void(BuildProgress)> progress) {
  SPACE_CO_TRY(tmpl::StoreEntry entry, co_await pool_.run([this, name] { return store_.find(name); }));
  std::shared_ptr<Build> build;
  if (auto running = running_.find(name); running != running_.end()) {
    build = running->second;
  } else {
    if (entry.recipe_path.empty())
      co_return make_error(Code::kFailedPrecondition, "template.no_recipe",
                           "template " + name + " has no recipe to be built from");
    if (!entry.recipe)
      co_return entry.problem.value_or(
          make_error(Code::kInvalidArgument, "template.malformed_recipe", "the recipe can't be read"));
    build = std::make_shared<Build>(executor_);
    build->name = name;
    build->entry = std::move(entry);
    running_.emplace(name, build);
    scope_.spawn(run(build));
  }
  std::size_t next = build->first;
  for (;;) {
    next = std::max(next, build->first);
    while (next < build->first + build->lines.size()) progress(build->lines[next++ - build->first]);
    if (build->over) break;
    co_await build->changed.wait();
  }
  SPACE_CO_CHECK_OK(build->outcome);
  SPACE_CO_TRY(tmpl::StoreEntry built, co_await pool_.run([this, name] { return store_.ready(name); }));
  co_return info_of(built);
}

async::Task<void> TemplateWork::run(std::shared_ptr<Build> build) {
  build->outcome = co_await follow(*build);
  build->over = true;
  running_.erase(build->name);
  if (build->outcome.ok()) {
    failed_.erase(build->name);
    log_.info("template_built", {{"template", build->name}});
  } else {
    failed_[build->name] = build->outcome.error().message;
    log_.warning("template_not_built",
                 {{"template", build->name}, {"error", build->outcome.error().describe()}});
  }
  build->changed.notify_all();
}

async::Task<Result<void>> TemplateWork::follow(Build& build) {
  std::vector<std::string> argv = {settings_.self, "build-template",
                                   "--recipe",     build.entry.recipe_path,
                                   "--out",        store_.build_dir(build.name),
                                   "--cache",      settings_.cache_dir,
                                   "--json",       "--die-with-parent"};
  if (!settings_.spaced.empty()) argv.insert(argv.end(), {"--spaced", settings_.spaced});
  if (!settings_.mkinitramfs.empty()) argv.insert(argv.end(), {"--mkinitramfs", settings_.mkinitramfs});
  // Killed when this object goes, also by cancellation: the builder's tools die with it.
  SPACE_CO_TRY(process::Child child, process::start_child(argv));
  asio::posix::stream_descriptor output(executor_, child.take_output().release());
  std::optional<Error> error;
  std::string pending;
  char buffer[4096];
  for (;;) {
    boost::system::error_code failed;
    std::size_t got = co_await output.async_read_some(asio::buffer(buffer),
                                                      asio::redirect_error(asio::use_awaitable, failed));
    if (failed) break;
    pending.append(buffer, got);
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      Line line = line_of(std::string_view(pending).substr(0, end));
      if (line.error) error = std::move(line.error);
      if (!line.progress) continue;
      if (build.lines.size() >= kKeptLines) {
        build.lines.pop_front();
        ++build.first;
      }
      build.lines.push_back(std::move(*line.progress));
      build.changed.notify_all();
    }
    if (pending.size() > kMaxLineBytes) pending.clear();
  }
  auto exit = co_await pool_.run([&child] { return child.wait(kEndLimit); });
  if (exit.ok() && exit->known && exit->exit_code == 0) co_return Result<void>();
  if (error) co_return std::move(*error);
  co_return make_error(Code::kInternal, "template.build_died", "the build ended without saying why");
}

async::Task<Result<void>> TemplateWork::remove(std::string name) {
  if (running_.contains(name))
    co_return make_error(Code::kFailedPrecondition, "node.template_building",
                         "template " + name + " is being built");
  failed_.erase(name);
  co_return co_await pool_.run([this, name] { return store_.remove(name); });
}

async::Task<void> TemplateWork::stop() {
  co_await scope_.stop();
}

}  // namespace space::node
