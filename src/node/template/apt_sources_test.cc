// SPDX-License-Identifier: Apache-2.0
#include "node/template/apt_sources.h"

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

constexpr const char* kDeb822 = R"(Types: deb
# a comment
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: https://vendor.test/node_20.x
Suites: nodistro
Components: main
Signed-By: /usr/share/keyrings/vendor.gpg

Types: deb
Enabled: no
URIs: http://off.test/debian
Suites: bookworm
Components: main
)";

TEST(AptSources, Deb822StanzasAreReadAndDisabledOnesLeftOut) {
  const auto sources = parse_deb822_sources(kDeb822);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].uris, std::vector<std::string>{"http://mirror.test/debian"});
  EXPECT_EQ(sources[0].suites.size(), 3u);
  EXPECT_EQ(sources[1].signed_by, "");
}

TEST(AptSources, InlineKeyKeepsItsLines) {
  const auto sources = parse_deb822_sources(
      "Types: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\nSigned-By:\n -----BEGIN\n .\n "
      "KEY\n");
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].signed_by, "\n -----BEGIN\n .\n KEY");
}

TEST(AptSources, OneLineFormIsRead) {
  const auto sources = parse_one_line_sources(
      "# deb http://no.test/debian bookworm main\n"
      "deb http://a.test/debian bookworm main non-free-firmware # why\n"
      "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://b.test/debian "
      "bookworm main\n"
      "deb-src http://c.test/debian bookworm main\n"
      "deb http://flat.test/ ./\n"
      "debatable line\n");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].components, (std::vector<std::string>{"main", "non-free-firmware"}));
  EXPECT_EQ(sources[1].signed_by, "/usr/share/keyrings/debian-archive-keyring.gpg");
}

TEST(AptSources, OnlyDebianEntriesOfTheSuiteAreChosen) {
  auto all = parse_deb822_sources(kDeb822);
  // Names the suite and main, yet isn't Debian: a vendor's key.
  const auto vendor = parse_one_line_sources(
      "deb [signed-by=/etc/apt/keyrings/vendor.gpg] http://v.test/debian/12 bookworm main");
  all.insert(all.end(), vendor.begin(), vendor.end());
  const auto chosen = select_debian(all, "bookworm");
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].suites, (std::vector<std::string>{"bookworm", "bookworm-updates"}));
  EXPECT_EQ(chosen[0].components, std::vector<std::string>{"main"});
  EXPECT_EQ(chosen[1].suites, std::vector<std::string>{"bookworm-security"});
}

TEST(AptSources, PathMustBeDebians) {
  const auto all = parse_one_line_sources("deb http://debian.test/ubuntu bookworm main\n");
  EXPECT_TRUE(select_debian(all, "bookworm").empty());
}

TEST(AptSources, UpdatesWithoutTheSuiteItselfAreNotEnough) {
  const auto all = parse_one_line_sources("deb http://m.test/debian bookworm-updates main\n");
  EXPECT_TRUE(select_debian(all, "bookworm").empty());
}

TEST(AptSources, BothFormsOnAMachineAreFound) {
  const TestDir dir;
  dir.write("sources.list", "deb http://m.test/debian bookworm main\n");
  dir.write("sources.list.d/more.sources", kDeb822);
  dir.write("sources.list.d/old.sources.disabled", "Types: deb\n");
  const auto text = debian_sources(dir.path(), "bookworm");
  ASSERT_TRUE(text.ok()) << text.error().describe();
  const auto back = parse_deb822_sources(*text);
  EXPECT_EQ(back.size(), 3u);
  EXPECT_EQ(select_debian(back, "bookworm"), back);
}

TEST(AptSources, MachineWithoutTheSuiteSaysSo) {
  const TestDir dir;
  dir.write("sources.list", "deb http://m.test/debian bookworm main\n");
  const auto text = debian_sources(dir.path(), "trixie");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().reason, "template.no_sources");
}

TEST(AptSources, TransportSettingsKeepProxiesAndNothingElse) {
  EXPECT_EQ(
      transport_settings("APT::Install-Recommends \"true\";\nAcquire::http::Proxy \"http://p.test:3128\";\n"
                         "Acquire::http::Proxy::inner.test \"DIRECT\";\nAcquire::https::Proxy \"\";\n"
                         "Acquire::check-valid-until \"false\";\nDir::Etc \"etc/apt\";\n"),
      "Acquire::http::Proxy \"http://p.test:3128\";\nAcquire::http::Proxy::inner.test \"DIRECT\";\n"
      "Acquire::check-valid-until \"false\";\n");
}

}  // namespace
}  // namespace space::node::tmpl
