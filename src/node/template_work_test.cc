// SPDX-License-Identifier: Apache-2.0
// Builds are followed from a program that plays the builder.
#include "node/template_work.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>

#include "lib/os/file.h"

namespace space::node {
namespace {

struct TemplateBuilds : ::testing::Test {
  std::string dir;
  SystemClock clock;
  obs::Log log{-1, "test", clock};
  async::Loop loop;
  async::BlockingPool pool{2};
  std::unique_ptr<tmpl::TemplateStore> store;
  std::unique_ptr<TemplateWork> work;
  std::vector<std::string> lines;

  void SetUp() override {
    char pattern[] = "/tmp/space-builds-XXXXXX";
    dir = ::mkdtemp(pattern);
    os::make_directory(dir + "/templates").value();
    os::make_directory(dir + "/recipes").value();
    os::write_file_atomic(
        dir + "/recipes/small.toml",
        "name = \"small\"\ndescription = \"a test\"\nsuite = \"bookworm\"\npackages = [\"git\"]\n",
        os::Durability::kBuffered)
        .value();
    store =
        std::make_unique<tmpl::TemplateStore>(std::vector{dir + "/templates"}, std::vector{dir + "/recipes"});
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }

  void builder(const std::string& script) {
    os::write_file_atomic(dir + "/builder", "#!/bin/sh\n" + script, os::Durability::kBuffered, 0755).value();
    BuildSettings settings;
    settings.self = dir + "/builder";
    settings.cache_dir = dir + "/cache";
    work = std::make_unique<TemplateWork>(loop.get_executor(), pool, log, *store, settings);
  }
  // A finished template, as the last lines of a script; $5 is the --out directory.
  static std::string makes_template() {
    return "mkdir -p \"$5\"; cd \"$5\"; truncate -s 1M disk.img; echo k > vmlinuz; echo i > initramfs; cp "
           "../../manifest manifest.json\n";
  }
  Result<TemplateInfo> build(const std::string& name) {
    Result<TemplateInfo> outcome;
    run([](TemplateBuilds& test, std::string what, Result<TemplateInfo>& out) -> async::Task<void> {
      out = co_await test.work->build(
          std::move(what), [&test](BuildProgress progress) { test.lines.push_back(progress.line); });
    }(*this, name, outcome));
    return outcome;
  }
  std::vector<TemplateInfo> list() {
    std::vector<TemplateInfo> all;
    run([](TemplateWork& from, std::vector<TemplateInfo>& out) -> async::Task<void> {
      out = *co_await from.list();
    }(*work, all));
    return all;
  }
  void run(async::Task<void> task) {
    boost::asio::co_spawn(loop, std::move(task), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    loop.restart();
    loop.run();
  }
};

TEST_F(TemplateBuilds, TellEveryLineAndGiveTheTemplate) {
  tmpl::Manifest manifest;
  manifest.name = "small";
  manifest.suite = "bookworm";
  manifest.disk_bytes = 1 << 20;
  manifest.recipe_digest = manifest.disk_sha256 = manifest.initramfs_sha256 = std::string(64, 'a');
  manifest.kernel_version = "1";
  os::write_file_atomic(dir + "/manifest", tmpl::to_json(manifest), os::Durability::kBuffered, 0644).value();
  builder(
      "echo '{\"progress\":\"one\",\"elapsed_ms\":5}'; echo noise; echo "
      "'{\"progress\":\"two\",\"elapsed_ms\":6}'\n" +
      makes_template());
  auto built = build("small");
  ASSERT_TRUE(built.ok()) << built.error().describe();
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(built->state, TemplateInfo::State::kReady);
  EXPECT_EQ(built->disk_bytes, 1U << 20);
}

TEST_F(TemplateBuilds, ThatFailGiveTheBuildersReason) {
  builder(
      "echo '{\"error\":{\"code\":\"unavailable\",\"reason\":\"template.no_network\",\"message\":\"no "
      "archive\",\"field\":\"\"}}'; exit 1\n");
  auto built = build("small");
  EXPECT_EQ(built.error().reason, "template.no_network");
  EXPECT_EQ(built.error().code, Code::kUnavailable);
  auto all = list();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].state, TemplateInfo::State::kFailed);
  EXPECT_EQ(all[0].reason, "no archive");
}

TEST_F(TemplateBuilds, ThatDieSilentlyAreErrors) {
  builder("kill -9 $$\n");
  EXPECT_EQ(build("small").error().reason, "template.build_died");
}

TEST_F(TemplateBuilds, OfUnknownNamesAreRefused) {
  builder("exit 0\n");
  EXPECT_EQ(build("nothing").error().code, Code::kNotFound);
  EXPECT_EQ(build("../etc").error().code, Code::kInvalidArgument);
}

TEST_F(TemplateBuilds, AreShownAsRecipesBefore) {
  builder("exit 0\n");
  auto all = list();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].state, TemplateInfo::State::kRecipe);
}

TEST_F(TemplateBuilds, EndWithTheAgent) {
  builder("echo $$ > " + dir + "/pid; exec sleep 1000\n");
  bool ended = false;
  boost::asio::co_spawn(
      loop,
      [](TemplateWork& from, bool& noted) -> async::Task<void> {
        auto built = co_await from.build("small", [](BuildProgress) {});
        noted = !built.ok();
      }(*work, ended),
      [](std::exception_ptr) {});
  run([](TemplateBuilds& test) -> async::Task<void> {
    while (!os::exists(test.dir + "/pid")) co_await async::sleep_for(std::chrono::milliseconds(5));
    co_await test.work->stop();
    test.loop.stop();
  }(*this));
  std::string pid = *os::read_file(dir + "/pid");
  EXPECT_FALSE(os::exists("/proc/" + pid.substr(0, pid.find('\n')) + "/exe"));
}

}  // namespace
}  // namespace space::node
