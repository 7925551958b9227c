// SPDX-License-Identifier: Apache-2.0
#include "link/call_rules.h"

#include <gtest/gtest.h>

#include "lib/wire/message.h"

namespace space::link {
namespace {

using guestapi::RequestBody;

template <class Body>
Bytes reply(Body body) {
  return wire::pack_body<guestapi::ReplyT>(std::move(body));
}
Bytes started() {
  guestapi::StartedT body;
  body.pid = 5;
  return reply(std::move(body));
}
Bytes exited() {
  guestapi::ExitedT body;
  body.exit_code = 0;
  return reply(std::move(body));
}
Bytes file_info() {
  guestapi::FileInfoT body;
  body.path = "/f";
  return reply(std::move(body));
}
Bytes watch_event() {
  guestapi::WatchEventT body;
  body.path = "/f/x";
  return reply(std::move(body));
}
Bytes large_page() {
  guestapi::DirectoryPageT body;
  for (int i = 0; i < 200; ++i) {
    body.entries.push_back(std::make_unique<guestapi::FileInfoT>());
    body.entries.back()->path = std::string(200, 'n');
  }
  return reply(std::move(body));
}

CallRules rules_for(RequestBody kind) {
  RequestFacts facts;
  facts.kind = kind;
  facts.path = "/f";
  return CallRules(facts);
}
bool refused(const Result<Bytes>& result) {
  return !result.ok() && result.error().reason == "link.protocol_error";
}
bool refused(const Result<void>& result) {
  return !result.ok() && result.error().reason == "link.protocol_error";
}
bool refused(const Result<Ending>& result) {
  return !result.ok() && result.error().reason == "link.protocol_error";
}
Error guest_error() {
  return make_error(Code::kNotFound, "guest.command_not_found", "no");
}

TEST(ExecRules, StartedThenDataThenExitedThenEnd) {
  auto rules = rules_for(RequestBody::Exec);
  EXPECT_TRUE(rules.on_message(started()).ok());
  EXPECT_TRUE(rules.on_data(1, 10).ok());
  EXPECT_TRUE(rules.on_data(2, 10).ok());
  EXPECT_TRUE(rules.on_message(exited()).ok());
  auto end = rules.on_end({});
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->status.ok());
}
TEST(ExecRules, NothingComesOutOfOrder) {
  EXPECT_TRUE(refused(rules_for(RequestBody::Exec).on_data(1, 1)));
  EXPECT_TRUE(refused(rules_for(RequestBody::Exec).on_message(exited())));
  EXPECT_TRUE(refused(rules_for(RequestBody::Exec).on_end({})));
  auto rules = rules_for(RequestBody::Exec);
  EXPECT_TRUE(rules.on_message(started()).ok());
  EXPECT_TRUE(refused(rules.on_message(started())));
  EXPECT_TRUE(refused(rules.on_end({})));  // no exit event is never a success
  EXPECT_TRUE(rules.on_message(exited()).ok());
  EXPECT_TRUE(refused(rules.on_message(exited())));
  EXPECT_TRUE(refused(rules.on_data(1, 1)));
}
TEST(ExecRules, OutputHasTwoChannelsAndATerminalOne) {
  auto rules = rules_for(RequestBody::Exec);
  EXPECT_TRUE(rules.on_message(started()).ok());
  EXPECT_TRUE(refused(rules.on_data(0, 1)));
  EXPECT_TRUE(refused(rules.on_data(3, 1)));
  EXPECT_TRUE(refused(rules.on_data(255, 1)));
  RequestFacts facts;
  facts.kind = RequestBody::Exec;
  facts.pty = true;
  CallRules terminal(facts);
  EXPECT_TRUE(terminal.on_message(started()).ok());
  EXPECT_TRUE(terminal.on_data(1, 1).ok());
  EXPECT_TRUE(refused(terminal.on_data(2, 1)));
}
TEST(ExecRules, DetachedEndsAfterStarted) {
  RequestFacts facts;
  facts.kind = RequestBody::Exec;
  facts.detached = true;
  CallRules rules(facts);
  EXPECT_TRUE(rules.on_message(started()).ok());
  EXPECT_TRUE(rules.on_end({}).ok());
  CallRules talkative(facts);
  EXPECT_TRUE(talkative.on_message(started()).ok());
  EXPECT_TRUE(refused(talkative.on_data(1, 1)));
  EXPECT_TRUE(refused(talkative.on_message(exited())));
}
TEST(ExecRules, AnErrorMayEndItAtAnyPointAndIsCleaned) {
  auto rules = rules_for(RequestBody::Exec);
  auto end = rules.on_end(guest_error());
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->status.error().reason, "guest.command_not_found");
  auto evil =
      rules_for(RequestBody::Exec).on_end(make_error(Code::kUnauthenticated, "control.bad_key", "\n"));
  ASSERT_TRUE(evil.ok());
  EXPECT_EQ(evil->status.error().reason, "guest.invalid_reason");
}
TEST(ExecRules, AnEndWithoutStatusIsNoEnd) {
  EXPECT_TRUE(refused(rules_for(RequestBody::Exec).on_end(wire::unpack_status({}))));
  EXPECT_TRUE(refused(rules_for(RequestBody::Exec).on_end(wire::unpack_status(as_bytes("garbage garbage")))));
}

TEST(AttachRules, TheAnswerSaysWhetherItIsATerminal) {
  guestapi::AttachedT attached;
  attached.pty = true;
  auto rules = rules_for(RequestBody::Attach);
  EXPECT_TRUE(rules.on_message(reply(std::move(attached))).ok());
  EXPECT_TRUE(refused(rules.on_data(2, 1)));
}

TEST(FileRules, ReadGivesInfoAndNoMoreThanWasAskedFor) {
  RequestFacts facts;
  facts.kind = RequestBody::ReadFile;
  facts.path = "/f";
  facts.length = 100;
  CallRules rules(facts);
  EXPECT_TRUE(rules.on_message(file_info()).ok());
  EXPECT_TRUE(rules.on_data(1, 100).ok());
  EXPECT_TRUE(refused(rules.on_data(1, 1)));
  EXPECT_TRUE(refused(rules.on_data(2, 1)));
  EXPECT_TRUE(refused(rules_for(RequestBody::ReadFile).on_end({})));
}
TEST(FileRules, KindsThatDoNotFitAreRefused) {
  EXPECT_TRUE(refused(rules_for(RequestBody::StatFile).on_message(started())));
  EXPECT_TRUE(refused(rules_for(RequestBody::MoveFile).on_message(file_info())));
  EXPECT_TRUE(refused(rules_for(RequestBody::MoveFile).on_data(1, 1)));
  EXPECT_TRUE(refused(rules_for(RequestBody::ListDirectory).on_message(file_info())));
  EXPECT_TRUE(refused(rules_for(RequestBody::WriteFile).on_data(1, 1)));
  EXPECT_TRUE(rules_for(RequestBody::MoveFile).on_end({}).ok());
  EXPECT_TRUE(rules_for(RequestBody::ListDirectory).on_end({}).ok());
}
TEST(FileRules, AnEndlessListEndsTheCallOnly) {
  auto rules = rules_for(RequestBody::ListDirectory);
  Bytes page = large_page();
  Result<Bytes> last = Bytes();
  for (std::uint64_t sent = 0; sent <= kMaxListBytes && last.ok(); sent += page.size())
    last = rules.on_message(page);
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().reason, "link.answer_too_large");
}
TEST(FileRules, AWatchRepeatsUntilItEnds) {
  auto rules = rules_for(RequestBody::WatchFiles);
  EXPECT_TRUE(refused(rules_for(RequestBody::WatchFiles).on_message(watch_event())));
  EXPECT_TRUE(rules.on_message(reply(guestapi::WatchingT{})).ok());
  EXPECT_TRUE(rules.on_message(watch_event()).ok());
  EXPECT_TRUE(rules.on_message(watch_event()).ok());
  EXPECT_TRUE(rules.on_end({}).ok());
}

TEST(ClientRules, InputGoesWhereItIsTaken) {
  RequestFacts facts;
  facts.kind = RequestBody::Exec;
  EXPECT_EQ(CallRules(facts).client_data(0).error().reason, "link.unexpected_input");
  facts.open_stdin = true;
  EXPECT_TRUE(CallRules(facts).client_data(0).ok());
  EXPECT_EQ(CallRules(facts).client_data(1).error().reason, "link.unexpected_input");
  EXPECT_TRUE(rules_for(RequestBody::Connect).client_data(0).ok());
  EXPECT_TRUE(rules_for(RequestBody::WriteFile).client_data(0).ok());
  EXPECT_FALSE(rules_for(RequestBody::ReadFile).client_data(0).ok());
}
TEST(ClientRules, MessagesAreControlsOfCommands) {
  Bytes resize = wire::pack_body<guestapi::ControlT>(guestapi::ResizeT{});
  auto kind = rules_for(RequestBody::Exec).client_message(resize);
  ASSERT_TRUE(kind.ok());
  EXPECT_EQ(*kind, guestapi::ControlBody::Resize);
  EXPECT_EQ(rules_for(RequestBody::Exec).client_message(as_bytes("garbage garbage")).error().reason,
            "link.malformed_message");
  EXPECT_EQ(rules_for(RequestBody::ReadFile).client_message(resize).error().reason, "link.unexpected_input");
}

}  // namespace
}  // namespace space::link
