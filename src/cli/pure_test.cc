// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>

#include "cli/escape_keys.h"
#include "cli/exit_code.h"
#include "cli/printable.h"
#include "cli/table.h"
#include "cli/target.h"

namespace space::cli {
namespace {

TEST(ParsePlace, TellsSessionsFromLocalPaths) {
  EXPECT_EQ(*parse_place("demo:/etc/hosts"), (Place{"demo", "/etc/hosts"}));
  EXPECT_EQ(*parse_place("./a:b"), (Place{std::nullopt, "./a:b"}));
  EXPECT_EQ(*parse_place("/x/a:b"), (Place{std::nullopt, "/x/a:b"}));
  EXPECT_EQ(*parse_place("file"), (Place{std::nullopt, "file"}));
  EXPECT_TRUE(parse_place("-")->stream());
}

TEST(ParsePlace, RefusesPathsInASessionThatAreNotAbsoluteOrClimb) {
  for (const char* bad : {"demo:etc", "demo:", "demo:/a/../b", "demo:/..", ""})
    EXPECT_EQ(parse_place(bad).error().reason, "cli.usage") << bad;
  EXPECT_TRUE(parse_place("demo:/a..b/..c").ok());
}

TEST(ParsePortPair, TakesOneOrTwoPorts) {
  EXPECT_EQ(*parse_port_pair("80"), (PortPair{80, 80}));
  EXPECT_EQ(*parse_port_pair("8080:80"), (PortPair{8080, 80}));
  EXPECT_EQ(*parse_port_pair("0:80"), (PortPair{0, 80}));
  EXPECT_EQ(*parse_port_pair(":80"), (PortPair{0, 80}));
  for (const char* bad : {"", "x", "0", "80:", "65536", "1:65536", "-1", "1:2:3", "80 "})
    EXPECT_FALSE(parse_port_pair(bad).ok()) << bad;
}

TEST(ParseSignal, TakesNumbersAndNames) {
  EXPECT_EQ(*parse_signal("9"), SIGKILL);
  EXPECT_EQ(*parse_signal("TERM"), SIGTERM);
  EXPECT_EQ(*parse_signal("sigint"), SIGINT);
  for (const char* bad : {"", "0", "65", "-1", "SIG", "NOPE", "9x"})
    EXPECT_FALSE(parse_signal(bad).ok()) << bad;
}

TEST(ParseVariable, TakesValuesOrLooksThemUp) {
  auto lookup = [](const char* name) -> const char* {
    return std::string_view(name) == "HOME" ? "/h" : nullptr;
  };
  EXPECT_EQ(*parse_variable("A=b=c", lookup), std::pair(std::string("A"), std::string("b=c")));
  EXPECT_EQ(*parse_variable("A=", lookup), std::pair(std::string("A"), std::string()));
  EXPECT_EQ(*parse_variable("HOME", lookup), std::pair(std::string("HOME"), std::string("/h")));
  EXPECT_FALSE(parse_variable("NONE", lookup).ok());
  EXPECT_FALSE(parse_variable("=x", lookup).ok());
}

TEST(NameInListing, TakesOnePlainNameAndNothingElse) {
  EXPECT_EQ(*name_in_listing("/root", "file"), "file");
  EXPECT_EQ(*name_in_listing("/root", "/root/file"), "file");
  EXPECT_EQ(*name_in_listing("/", "/file"), "file");
  EXPECT_EQ(*name_in_listing("/root", "a..b"), "a..b");
  const std::string nul("a\0b", 3);
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("/etc/passwd"),
        std::string("a/b"), std::string("/root/"), std::string("/root/.."), std::string("/root/a/b"), nul,
        std::string(256, 'x')}) {
    EXPECT_EQ(name_in_listing("/root", bad).error().reason, "cli.hostile_name") << bad;
  }
}

TEST(Printable, KeepsTextAndDisarmsTheRest) {
  EXPECT_EQ(printable("plain ü 漢 🙂"), "plain ü 漢 🙂");
  EXPECT_EQ(printable("\x1b[31m\x07\x7f"), "\\x1b[31m\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u{9b}");  // a control sequence introducer of one character
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u{202e}b");  // would show the rest backwards
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("a\nb\tc"), "a\\x0ab\\x09c");
  EXPECT_EQ(printable("a\nb\tc\r", Lines::kMany), "a\nb\tc\\x0d");
}

TEST(Printable, KnowsWhatATornSequenceStillNeeds) {
  EXPECT_EQ(incomplete_tail("abc"), 0U);
  EXPECT_EQ(incomplete_tail("a\xc3"), 1U);
  EXPECT_EQ(incomplete_tail("a\xf0\x9f\x99"), 3U);
  EXPECT_EQ(incomplete_tail("a\xc3\xbc"), 0U);
  EXPECT_EQ(incomplete_tail("\x80\x80\x80\x80"), 0U);
  EXPECT_TRUE(is_utf8("ü"));
  EXPECT_FALSE(is_utf8("\xff"));
}

TEST(ExitCode, SaysHowACommandEnded) {
  EXPECT_EQ(exit_code_of(CommandEnd{0, 0, false, false}), 0);
  EXPECT_EQ(exit_code_of(CommandEnd{255, 0, false, false}), 255);
  EXPECT_EQ(exit_code_of(CommandEnd{-1, 9, false, true}), 137);
  EXPECT_EQ(exit_code_of(CommandEnd{-1, 9, true, false}), 124);
  EXPECT_EQ(exit_code_of(CommandEnd{}), 125);
  EXPECT_EQ(exit_code_of(CommandEnd{256, 0, false, false}), 125);
  EXPECT_EQ(exit_code_of_failed_command(make_error(Code::kNotFound, "guest.command_not_found", "")), 127);
  EXPECT_EQ(
      exit_code_of_failed_command(make_error(Code::kPermissionDenied, "guest.command_not_executable", "")),
      126);
  EXPECT_EQ(exit_code_of_failed_command(make_error(Code::kNotFound, "control.no_such_session", "")), 125);
}

TEST(EscapeKeys, LeavesOnlyAtTheBeginningOfALine) {
  EscapeKeys keys;
  EXPECT_EQ(keys.feed("ls ~.\r").bytes, "ls ~.\r");
  EXPECT_EQ(keys.feed("~").bytes, "");
  EXPECT_EQ(keys.feed("~x\r").bytes, "~x\r");
  EXPECT_EQ(keys.feed("~a\n").bytes, "~a\n");
  auto out = keys.feed("~.rest");
  EXPECT_TRUE(out.leave);
  EXPECT_TRUE(EscapeKeys().feed("~.").leave);
}

TEST(Table, AlignsByCharactersAndEscapesCells) {
  Table table({"NAME", "N"});
  table.row({"ü", "1"});
  table.row({"a\x1b[0m", "22"});
  EXPECT_EQ(table.text(), "NAME      N\nü         1\na\\x1b[0m  22\n");
}

TEST(HumanSize, IsExactWhereThatIsShort) {
  EXPECT_EQ(human_size(512u << 20), "512MiB");
  EXPECT_EQ(human_size(0), "0");
  EXPECT_EQ(human_size(1536ULL << 20), "1536MiB");
  EXPECT_EQ(human_size(123456789), "117.7MiB");
}

}  // namespace
}  // namespace space::cli
