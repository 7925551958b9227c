// SPDX-License-Identifier: Apache-2.0
#include "link/sanitize.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/wire/message.h"
#include "lib/wire/mux.h"
#include "link/text.h"

namespace space::link {
namespace {

using namespace std::string_literals;

RequestFacts facts_of(guestapi::RequestBody kind, std::string path = "/asked") {
  RequestFacts facts;
  facts.kind = kind;
  facts.path = std::move(path);
  return facts;
}

template <class Body>
Result<CleanReply> pass(Body body, std::string path = "/asked") {
  return sanitize_reply(wire::pack_body<guestapi::ReplyT>(std::move(body)),
                        facts_of(guestapi::RequestBody::NONE, std::move(path)));
}

template <class Body>
std::string reason_of(Body body, std::string path = "/asked") {
  auto reply = pass(std::move(body), std::move(path));
  return reply.ok() ? "ok" : reply.error().reason;
}

template <class Body>
Body rebuilt(Body body, std::string path = "/asked") {
  auto reply = pass(std::move(body), std::move(path));
  EXPECT_TRUE(reply.ok()) << reply.error().describe();
  auto read = wire::unpack_body<guestapi::ReplyT, Body>(reply->message);
  EXPECT_TRUE(read.ok());
  return std::move(*read);
}

const std::string kRefused = "link.protocol_error";

guestapi::StartedT started(std::uint32_t pid) {
  guestapi::StartedT body;
  body.pid = pid;
  return body;
}
TEST(SanitizeStarted, PidsAreInTheKernelsRange) {
  EXPECT_EQ(rebuilt(started(1)).pid, 1U);
  EXPECT_EQ(rebuilt(started(kMaxPid)).pid, kMaxPid);
  EXPECT_EQ(reason_of(started(0)), kRefused);
  EXPECT_EQ(reason_of(started(kMaxPid + 1)), kRefused);
  EXPECT_EQ(reason_of(started(std::numeric_limits<std::uint32_t>::max())), kRefused);
}

guestapi::ExitedT exited(int code, int signal, std::uint64_t ms = 5) {
  guestapi::ExitedT body;
  body.exit_code = code;
  body.signal = signal;
  body.duration_ms = ms;
  return body;
}
TEST(SanitizeExited, ACommandEndsByItselfOrByASignal) {
  EXPECT_EQ(rebuilt(exited(255, 0)).exit_code, 255);
  EXPECT_EQ(rebuilt(exited(-1, 9)).signal, 9);
  EXPECT_EQ(reason_of(exited(-1, 0)), kRefused);
  EXPECT_EQ(reason_of(exited(0, 9)), kRefused);
  EXPECT_EQ(reason_of(exited(256, 0)), kRefused);
  EXPECT_EQ(reason_of(exited(-2, 0)), kRefused);
  EXPECT_EQ(reason_of(exited(-1, 65)), kRefused);
  EXPECT_EQ(reason_of(exited(-1, -1)), kRefused);
  EXPECT_EQ(reason_of(exited(0, 0, std::numeric_limits<std::uint64_t>::max())), kRefused);
}

guestapi::CommandInfoT command(std::string id, bool running) {
  guestapi::CommandInfoT body;
  body.command_id = std::move(id);
  body.argv = {"sh", "-c", "x"};
  body.pid = 7;
  body.running = running;
  if (!running) body.exit = std::make_unique<guestapi::ExitedT>(exited(3, 0));
  return body;
}
TEST(SanitizeCommandInfo, HoldsWhatTheHostGaveIt) {
  auto info = rebuilt(command("abc-1", false));
  EXPECT_EQ(info.command_id, "abc-1");
  EXPECT_EQ(info.argv.size(), 3U);
  EXPECT_EQ(info.exit->exit_code, 3);
  EXPECT_TRUE(rebuilt(command("abc", true)).running);
}
TEST(SanitizeCommandInfo, RefusesNamesThatNobodyGave) {
  EXPECT_EQ(reason_of(command("", true)), kRefused);
  EXPECT_EQ(reason_of(command("a/../b", true)), kRefused);
  EXPECT_EQ(reason_of(command("a\x1b[31m", true)), kRefused);
  EXPECT_EQ(reason_of(command(std::string(129, 'a'), true)), kRefused);
}
TEST(SanitizeCommandInfo, RefusesContradictions) {
  auto both = command("abc", true);
  both.exit = std::make_unique<guestapi::ExitedT>(exited(0, 0));
  EXPECT_EQ(reason_of(std::move(both)), kRefused);
  auto neither = command("abc", false);
  neither.exit.reset();
  EXPECT_EQ(reason_of(std::move(neither)), kRefused);
}
TEST(SanitizeCommandInfo, ArgumentsAreBoundedAndText) {
  auto many = command("abc", true);
  many.argv.assign(kMaxArguments + 1, "");
  EXPECT_EQ(reason_of(std::move(many)), kRefused);
  auto large = command("abc", true);
  large.argv.assign(2, std::string(kMaxArgumentBytes / 2 + 1, 'a'));
  EXPECT_EQ(reason_of(std::move(large)), kRefused);
  auto nul = command("abc", true);
  nul.argv = {"a\0b"s};
  EXPECT_EQ(reason_of(std::move(nul)), kRefused);
  auto binary = command("abc", true);
  binary.argv = {"a\xff"};
  EXPECT_EQ(rebuilt(std::move(binary)).argv.at(0), "a\xef\xbf\xbd");
}
TEST(SanitizeCommandInfo, ATimeAlwaysHasFourDigitYears) {
  auto info = command("abc", true);
  info.started_ms = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(rebuilt(std::move(info)).started_ms, static_cast<std::uint64_t>(kMaxTimeMs));
}

guestapi::FileInfoT file(std::string path, guestapi::FileKind kind = guestapi::FileKind::Regular) {
  guestapi::FileInfoT body;
  body.path = std::move(path);
  body.kind = kind;
  body.size = 10;
  body.mode = 0644;
  return body;
}
TEST(SanitizeFileInfo, ThePathIsTheOneThatWasAskedFor) {
  EXPECT_EQ(rebuilt(file("/etc/shadow"), "/asked").path, "/asked");
}
TEST(SanitizeFileInfo, PathsMayBeAnyBytes) {
  EXPECT_EQ(rebuilt(file("x"), "/a\xff\n").path, "/a\xff\n");
}
TEST(SanitizeFileInfo, NumbersAreBounded) {
  auto odd = file("x");
  odd.mode = 0xffffffff;
  odd.modified_ms = std::numeric_limits<std::int64_t>::max();
  auto info = rebuilt(std::move(odd));
  EXPECT_EQ(info.mode, 07777U);
  EXPECT_EQ(info.modified_ms, kMaxTimeMs);
  auto old = file("x");
  old.modified_ms = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(rebuilt(std::move(old)).modified_ms, kMinTimeMs);
  auto huge = file("x");
  huge.size = kMaxCount + 1;
  EXPECT_EQ(reason_of(std::move(huge)), kRefused);
  EXPECT_EQ(reason_of(file("x", static_cast<guestapi::FileKind>(200))), kRefused);
}
TEST(SanitizeFileInfo, OnlyLinksHaveTargets) {
  auto link = file("x", guestapi::FileKind::Symlink);
  link.target = "../elsewhere";
  EXPECT_EQ(rebuilt(std::move(link)).target, "../elsewhere");
  auto regular = file("x");
  regular.target = "y";
  EXPECT_EQ(reason_of(std::move(regular)), kRefused);
  auto nul = file("x", guestapi::FileKind::Symlink);
  nul.target = "a\0b"s;
  EXPECT_EQ(reason_of(std::move(nul)), kRefused);
  auto large = file("x", guestapi::FileKind::Symlink);
  large.target = std::string(kMaxPathBytes + 1, 'a');
  EXPECT_EQ(reason_of(std::move(large)), kRefused);
}

guestapi::DirectoryPageT page(std::string name) {
  guestapi::DirectoryPageT body;
  body.entries.push_back(std::make_unique<guestapi::FileInfoT>(file("fine")));
  body.entries.push_back(std::make_unique<guestapi::FileInfoT>(file(std::move(name))));
  return body;
}
TEST(SanitizeDirectoryPage, EntriesAreNames) {
  EXPECT_EQ(rebuilt(page("b\xff")).entries.at(1)->path, "b\xff");
  EXPECT_EQ(reason_of(page("..")), kRefused);
  EXPECT_EQ(reason_of(page(".")), kRefused);
  EXPECT_EQ(reason_of(page("")), kRefused);
  EXPECT_EQ(reason_of(page("../../etc/passwd")), kRefused);
  EXPECT_EQ(reason_of(page("/etc/passwd")), kRefused);
  EXPECT_EQ(reason_of(page("a\0b"s)), kRefused);
  EXPECT_EQ(reason_of(page(std::string(kMaxNameBytes + 1, 'a'))), kRefused);
}
// One long link target, named by thousands of entries: 60 KiB that would unpack to a quarter of a gigabyte.
TEST(SanitizeDirectoryPage, AStringNamedManyTimesIsNotCopiedManyTimes) {
  flatbuffers::FlatBufferBuilder builder;
  auto target = builder.CreateString(std::string(4000, 't'));
  auto name = builder.CreateString("n");
  auto info = guestapi::CreateFileInfo(builder, name, guestapi::FileKind::Symlink, 0, 0, 0, 0, 0, target);
  std::vector<flatbuffers::Offset<guestapi::FileInfo>> entries(9000, info);
  auto body = guestapi::CreateDirectoryPageDirect(builder, &entries);
  builder.Finish(guestapi::CreateReply(builder, guestapi::ReplyBody::DirectoryPage, body.Union()));
  Bytes message = wire::finished(builder);
  ASSERT_LE(message.size(), wire::kMaxMessageBytes);
  ASSERT_TRUE(wire::verify<guestapi::Reply>(message).ok());  // it is well-formed
  auto reply = sanitize_reply(message, facts_of(guestapi::RequestBody::ListDirectory));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().reason, kRefused);
}

guestapi::WatchEventT change(std::string path, guestapi::WatchKind kind = guestapi::WatchKind::Created) {
  guestapi::WatchEventT body;
  body.kind = kind;
  body.path = std::move(path);
  return body;
}
TEST(SanitizeWatchEvent, ChangesAreOfWhatIsWatched) {
  EXPECT_EQ(rebuilt(change("/w"), "/w").path, "/w");
  EXPECT_EQ(rebuilt(change("/w/a/b"), "/w/").path, "/w/a/b");
  EXPECT_EQ(rebuilt(change("/x"), "/").path, "/x");
  EXPECT_EQ(rebuilt(change("/a/../b/x"), "/a/../b").path, "/a/../b/x");
  EXPECT_EQ(rebuilt(change("", guestapi::WatchKind::Overflow), "/w").path, "");
  EXPECT_EQ(reason_of(change("", guestapi::WatchKind::Created), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/other"), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/wide"), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/w/../x"), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/w/a\0"s), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/w/" + std::string(5000, 'a')), "/w"), kRefused);
  EXPECT_EQ(reason_of(change("/w", static_cast<guestapi::WatchKind>(99)), "/w"), kRefused);
}

TEST(SanitizeHello, TextIsOneEscapedLine) {
  guestapi::HelloReplyT hello;
  hello.protocol = 1;
  hello.version = "1.0\n\x1b[2J";
  hello.kernel = std::string(10'000, 'k');
  hello.boot_id = "a\xff";
  auto clean = rebuilt(std::move(hello));
  EXPECT_TRUE(is_printable(clean.version));
  EXPECT_LE(clean.kernel.size(), kMaxHelloTextBytes);
  EXPECT_TRUE(is_printable(clean.boot_id));
}

TEST(SanitizeMetrics, NumbersCanBeWrittenAsJson) {
  guestapi::MetricsT metrics;
  metrics.load1 = std::numeric_limits<float>::quiet_NaN();
  metrics.memory_total = 10;
  metrics.memory_available = 20;
  auto clean = rebuilt(std::move(metrics));
  EXPECT_EQ(clean.load1, 0.0F);
  EXPECT_EQ(clean.memory_available, 10U);
  guestapi::MetricsT huge;
  huge.disk_total = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(reason_of(std::move(huge)), kRefused);
}

TEST(SanitizeReply, RefusesWhatIsNoReply) {
  auto facts = facts_of(guestapi::RequestBody::Exec);
  EXPECT_EQ(sanitize_reply({}, facts).error().reason, kRefused);
  EXPECT_EQ(sanitize_reply(as_bytes("not a flatbuffer at all"), facts).error().reason, kRefused);
  Bytes message = wire::pack_body<guestapi::ReplyT>(started(5));
  EXPECT_EQ(sanitize_reply(ByteView(message).first(message.size() - 4), facts).error().reason, kRefused);
  // A kind that the schema doesn't know: the verifier lets those through.
  flatbuffers::FlatBufferBuilder builder;
  auto body = guestapi::CreateStarted(builder, 1);
  builder.Finish(guestapi::CreateReply(builder, static_cast<guestapi::ReplyBody>(200), body.Union()));
  EXPECT_EQ(sanitize_reply(wire::finished(builder), facts).error().reason, kRefused);
}

TEST(SanitizeStatus, ReasonsAreNamesOfTheGuest) {
  auto reason = [](std::string text) {
    return sanitize_status(make_error(Code::kNotFound, std::move(text), "m")).reason;
  };
  EXPECT_EQ(reason("guest.no_such_file"), "guest.no_such_file");
  EXPECT_EQ(reason("guest."), "guest.invalid_reason");
  EXPECT_EQ(reason("control.unauthenticated"), "guest.invalid_reason");
  EXPECT_EQ(reason("link.protocol_error"), "guest.invalid_reason");
  EXPECT_EQ(reason("guest.A"), "guest.invalid_reason");
  EXPECT_EQ(reason("guest.a\n"), "guest.invalid_reason");
  EXPECT_EQ(reason("guest." + std::string(48, 'a')), "guest." + std::string(48, 'a'));
  EXPECT_EQ(reason("guest." + std::string(49, 'a')), "guest.invalid_reason");
}
TEST(SanitizeStatus, MessagesAreShortAndPrintable) {
  auto status = sanitize_status(Error{Code::kNotFound, "guest.x", std::string(5000, '\x1b'), "pa\nth"});
  EXPECT_LE(status.message.size(), kMaxStatusMessageBytes);
  EXPECT_TRUE(is_printable(status.message));
  EXPECT_EQ(status.field, "");
  EXPECT_EQ(sanitize_status(Error{Code::kNotFound, "guest.x", "m", "argv[0]"}).field, "argv[0]");
  EXPECT_EQ(sanitize_status(Error{Code::kOk, "guest.x", "m", ""}).code, Code::kInternal);
}

TEST(ExamineRequest, ReadsWhatDecidesTheAnswers) {
  guestapi::ExecT exec;
  exec.command_id = "c1";
  exec.argv = {"true"};
  exec.pty = std::make_unique<guestapi::PtyT>();
  exec.open_stdin = true;
  auto facts = examine_request(wire::pack_body<guestapi::RequestT>(std::move(exec)));
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(facts->pty && facts->open_stdin && !facts->detached);
  guestapi::ReadFileT read;
  read.path = "/f";
  read.length = 7;
  facts = examine_request(wire::pack_body<guestapi::RequestT>(std::move(read)));
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->path, "/f");
  EXPECT_EQ(facts->length, 7U);
}
TEST(ExamineRequest, RefusesWhatADaemonCouldNotRepeat) {
  guestapi::ExecT exec;
  exec.command_id = "a b";
  EXPECT_EQ(examine_request(wire::pack_body<guestapi::RequestT>(std::move(exec))).error().reason,
            "link.malformed_command_id");
  guestapi::StatFileT stat;
  stat.path = "/a\0b"s;
  EXPECT_EQ(examine_request(wire::pack_body<guestapi::RequestT>(std::move(stat))).error().reason,
            "link.malformed_path");
  EXPECT_EQ(examine_request(as_bytes("nonsense nonsense")).error().reason, "link.malformed_request");
}

TEST(RepairUtf8, ReplacesOnlyWhatIsInvalid) {
  EXPECT_EQ(repair_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(repair_utf8("\xff"), r);
  EXPECT_EQ(repair_utf8("\xc0\xaf"), r + r);                  // overlong
  EXPECT_EQ(repair_utf8("\xed\xa0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(repair_utf8("\xf4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(repair_utf8("\xe2\x82"), r + r);                  // cut
}

}  // namespace
}  // namespace space::link
