// SPDX-License-Identifier: Apache-2.0
#include "node/record.h"

#include <gtest/gtest.h>

#include "node/options.h"

namespace space::node {
namespace {

SandboxRecord sample() {
  SandboxRecord record;
  record.sandbox = SandboxId("sandbox0000000000000");
  record.session = "session0000000000000";
  record.tenant = "default";
  record.generation = 3;
  record.template_name = "base";
  record.resources = {1, 512 << 20, std::uint64_t{8} << 30};
  record.overhead_bytes = 1000;
  record.backend = "qemu";
  record.acceleration = "tcg";
  record.uid = 700'016;
  record.state = SandboxRecord::State::kRunning;
  record.process = process::Identity{4242, 99, "boot"};
  record.started = *parse_rfc3339("2026-11-30T22:28:00.123Z");
  record.kernel_boot_us = 5;
  return record;
}

TEST(SandboxRecord, RoundTrips) {
  auto read = parse_record(to_json(sample()));
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(to_json(*read), to_json(sample()));
  EXPECT_EQ(read->process, sample().process);
}

TEST(SandboxRecord, MayHaveNoProcessYet) {
  SandboxRecord record = sample();
  record.process.reset();
  record.state = SandboxRecord::State::kCreating;
  EXPECT_FALSE(parse_record(to_json(record))->process.has_value());
}

TEST(SandboxRecord, ThatIsCutOrChangedIsMalformed) {
  std::string text = to_json(sample());
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_EQ(parse_record(text.substr(0, length)).error().reason, "node.malformed_record") << length;
  }
  std::string other = text;
  other.replace(other.find("\"format\":1"), 10, "\"format\":9");
  EXPECT_EQ(parse_record(other).error().reason, "node.malformed_record");
  std::string state = text;
  state.replace(state.find("running"), 7, "dancing");
  EXPECT_FALSE(parse_record(state).ok());
}

TEST(NodeOptions, AreReadInBothForms) {
  auto options = parse_options({"--data", "/d", "--listen-fd=7", "--link-socket", "/l", "--templates",
                                "/a:/b", "--recipes", "/r", "--uid-base", "700000", "--accel", "tcg",
                                "--backend", "fake", "--spaced", "/s"});
  ASSERT_TRUE(options.ok()) << options.error().describe();
  EXPECT_EQ(options->listen_fd, 7);
  EXPECT_EQ(options->templates, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(options->backend, BackendKind::kFake);
  EXPECT_EQ(options->acceleration, vmm::WantedAcceleration::kTcg);
}

TEST(NodeOptions, ThatAreWrongNameThemselves) {
  EXPECT_EQ(parse_options({"--data"}).error().field, "data");
  EXPECT_EQ(parse_options({"--nonsense", "x"}).error().field, "nonsense");
  EXPECT_EQ(parse_options({"--listen-fd", "x"}).error().field, "listen-fd");
  EXPECT_EQ(parse_options({"--accel", "warp"}).error().field, "accel");
  EXPECT_EQ(parse_options({"--data", "/d", "--listen-fd", "7", "--link-socket", "/l", "--uid-base", "0"})
                .error()
                .field,
            "uid-base");
}

}  // namespace
}  // namespace space::node
