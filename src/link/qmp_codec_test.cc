// SPDX-License-Identifier: Apache-2.0
#include "link/qmp_codec.h"

#include <gtest/gtest.h>

#include "link/text.h"

namespace space::link {
namespace {

using linkapi::EventKind;
using linkapi::MachineState;

template <class T>
T parsed(std::string_view line) {
  auto message = parse_qmp(line);
  EXPECT_TRUE(message.ok());
  EXPECT_TRUE(std::holds_alternative<T>(*message));
  return std::get<T>(*message);
}
bool refused(std::string_view line) {
  auto message = parse_qmp(line);
  return !message.ok() && message.error().reason == "link.qmp_protocol";
}

TEST(ParseQmp, ReadsWhatQemuSays) {
  parsed<QmpGreeting>(
      R"({"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}}, "capabilities": ["oob"]}})");
  EXPECT_EQ(parsed<QmpAnswer>(R"({"return": {}, "id": 3})").id, 3U);
  auto status = parsed<QmpAnswer>(
      R"({"return": {"status": "running", "singlestep": false, "running": true}, "id": 4})");
  EXPECT_EQ(status.state, MachineState::Running);
  auto event = parsed<QmpEvent>(
      R"({"timestamp": {"seconds": 1, "microseconds": 2}, "event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}})");
  EXPECT_EQ(event.kind, EventKind::GuestShutdown);
  EXPECT_EQ(event.detail, "guest-reset");
  EXPECT_EQ(parsed<QmpEvent>(R"({"event": "GUEST_PANICKED", "data": {"action": "pause"}})").kind,
            EventKind::GuestPanicked);
  EXPECT_EQ(
      parsed<QmpEvent>(R"({"event": "BLOCK_IO_ERROR", "data": {"operation": "write", "nospace": true}})")
          .detail,
      "write, no space");
}
TEST(ParseQmp, OurOwnShutdownAndUnknownEventsAreNoise) {
  parsed<QmpNoise>(R"({"event": "SHUTDOWN", "data": {"guest": false, "reason": "host-qmp-quit"}})");
  parsed<QmpNoise>(R"({"event": "NIC_RX_FILTER_CHANGED"})");
  parsed<QmpNoise>(R"({"event": "SHUTDOWN"})");
}
TEST(ParseQmp, OnlyKnownWordsGetThrough) {
  EXPECT_EQ(parsed<QmpEvent>(R"({"event": "SHUTDOWN", "data": {"guest": true, "reason": "\u001b[31mevil"}})")
                .detail,
            "other");
  EXPECT_EQ(parsed<QmpAnswer>(R"({"return": {"status": "evil"}, "id": 1})").state, MachineState::Unknown);
  auto error =
      parsed<QmpAnswer>(R"({"error": {"class": "GenericError", "desc": "no\nsuch \u001b thing"}, "id": 1})")
          .error;
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->reason, "link.machine_command_failed");
  EXPECT_TRUE(is_printable(error->message));
}
TEST(ParseQmp, RefusesWhatIsNoQmp) {
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("{"));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused("3"));
  EXPECT_TRUE(refused("{}"));
  EXPECT_TRUE(refused(R"({"return": {}})"));
  EXPECT_TRUE(refused(R"({"return": {}, "id": -1})"));
  EXPECT_TRUE(refused(R"({"return": {}, "id": "1"})"));
  EXPECT_TRUE(refused(R"({"error": "x", "id": 1})"));
  EXPECT_TRUE(refused(R"({"event": 3})"));
  EXPECT_TRUE(refused("\xff\xfe"));
  EXPECT_TRUE(refused(R"({"return": )" + std::string(17, '[') + std::string(17, ']') + R"(, "id": 1})"));
}

TEST(QmpLines, CutsAStreamInLines) {
  QmpLines lines;
  ASSERT_TRUE(lines.append(as_bytes("one\r\n\ntw")).ok());
  EXPECT_EQ(lines.next(), "one");
  EXPECT_EQ(lines.next(), std::nullopt);
  ASSERT_TRUE(lines.append(as_bytes("o\nthree\n")).ok());
  EXPECT_EQ(lines.next(), "two");
  EXPECT_EQ(lines.next(), "three");
  EXPECT_EQ(lines.next(), std::nullopt);
}
TEST(QmpLines, NoLineGrowsBeyondTheLimit) {
  const std::string half(kMaxQmpLineBytes / 2, 'x');
  QmpLines lines;
  EXPECT_TRUE(lines.append(as_bytes(half)).ok());
  EXPECT_TRUE(lines.append(as_bytes(half)).ok());
  EXPECT_FALSE(lines.append(as_bytes("x")).ok());
  QmpLines other;
  EXPECT_FALSE(other.append(as_bytes("fine\n" + half + half + "x\n")).ok());
}
TEST(QmpLines, ManyLinesAtOnceAreNoLongLine) {
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "0123456789\n";
  QmpLines lines;
  ASSERT_TRUE(lines.append(as_bytes(many)).ok());
  int count = 0;
  while (lines.next()) ++count;
  EXPECT_EQ(count, 10'000);
}

}  // namespace
}  // namespace space::link
