// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/fake/fake_qmp.h"

#include <gtest/gtest.h>

namespace space::node::vmm::fake {
namespace {

TEST(FakeQmp, GreetsAsQemuDoes) {
  EXPECT_TRUE(qmp_greeting().starts_with("{\"QMP\":{\"version\""));
}

TEST(FakeQmp, AnswersWithTheIdOfTheRequest) {
  EXPECT_EQ(answer_qmp(R"({"execute":"qmp_capabilities","id":7})", false).text,
            "{\"return\":{},\"id\":7}\r\n");
}

TEST(FakeQmp, SaysWhatTheMachineHasToDo) {
  EXPECT_EQ(answer_qmp(R"({"execute":"stop"})", false).command, QmpCommand::kStop);
  EXPECT_EQ(answer_qmp(R"({"execute":"cont"})", true).command, QmpCommand::kContinue);
  EXPECT_EQ(answer_qmp(R"({"execute":"quit"})", true).command, QmpCommand::kQuit);
  EXPECT_EQ(answer_qmp(R"({"execute":"system_powerdown"})", true).command, QmpCommand::kPowerDown);
}

TEST(FakeQmp, KnowsWhetherItIsPaused) {
  EXPECT_NE(answer_qmp(R"({"execute":"query-status"})", true).text.find("\"status\":\"paused\""),
            std::string::npos);
  EXPECT_NE(answer_qmp(R"({"execute":"query-status"})", false).text.find("\"status\":\"running\""),
            std::string::npos);
}

TEST(FakeQmp, RefusesTheRest) {
  for (const char* line : {"", "[]", "{}", "{\"execute\":3}", R"({"execute":"migrate"})"}) {
    EXPECT_NE(answer_qmp(line, false).text.find("\"error\""), std::string::npos) << line;
    EXPECT_EQ(answer_qmp(line, false).command, QmpCommand::kNone) << line;
  }
}

}  // namespace
}  // namespace space::node::vmm::fake
