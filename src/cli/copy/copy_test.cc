// SPDX-License-Identifier: Apache-2.0
// space cp against a server that may lie.
#include <sys/stat.h>

#include <atomic>

#include "cli/cli_fixture.h"

namespace space::cli {
namespace {

std::string info(const std::string& path, const std::string& kind, const std::string& mode = "0644") {
  return R"({"path":")" + path + R"(","kind":")" + kind + R"(","size":1,"mode":")" + mode +
         R"(","uid":0,"gid":0,"modified_at":"m"})";
}

struct Cp : CliFixture {
  const std::string files = "/v1/sessions/demo/files";
  std::string target;

  void SetUp() override {
    CliFixture::SetUp();
    target = dir + "/in";
  }
  // What stat says of every path: by default nothing is there.
  void remote_is(const std::string& kind) {
    server.on("GET", files + "/stat", [kind](const Asked&) {
      if (kind.empty()) return Answer{404, json_error("not_found", "guest.no_such_file", "not there"), {}};
      return Answer{200, info("/x", kind), {}};
    });
  }
  void remote_lists(const std::string& items) {
    server.on("GET", files + "/list", [items](const Asked& asked) {
      bool top = asked.query == "path=%2Ftree";
      return Answer{200, R"({"items":[)" + (top ? items : "") + "]}", {}};
    });
  }
  void remote_file(const std::string& content, std::size_t cut_after = SIZE_MAX) {
    server.on("GET", files, [content, cut_after](const Asked&) {
      Answer answer{200, content, {{"Space-File-Mode", "0751"}}};
      answer.cut_after = cut_after;
      return answer;
    });
  }
  void accept_uploads() {
    server.on("PUT", files, [](const Asked&) { return Answer{201, "{}", {}}; });
    server.on("POST", files + "/mkdir", [](const Asked&) { return Answer{204, "", {}}; });
  }
  void file(const std::string& name, const std::string& content, mode_t mode = 0644) {
    os::write_file_atomic(dir + "/" + name, content, os::Durability::kBuffered).value();
    ::chmod((dir + "/" + name).c_str(), mode);
  }
  static mode_t mode_of(const std::string& path) {
    struct stat found{};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_mode : 0;
  }
  std::vector<std::string> queries(const std::string& method) const {
    std::vector<std::string> out;
    for (const auto& asked : server.asked()) {
      if (asked.method == method) out.push_back(asked.query);
    }
    return out;
  }
};

TEST_F(Cp, UploadsOneFileWithItsMode) {
  remote_is("");
  accept_uploads();
  file("tool", "content", 0755);
  EXPECT_EQ(space({"cp", dir + "/tool", "demo:/root/tool"}), 0) << err;
  EXPECT_EQ(queries("PUT"), std::vector<std::string>{"path=%2Froot%2Ftool&mode=0755&parents=true"});
  EXPECT_EQ(server.asked().back().body, "content");
  EXPECT_EQ(server.asked().back().headers.at("content-length"), "7");
}

TEST_F(Cp, UploadsIntoADirectoryThatIsThere) {
  remote_is("directory");
  accept_uploads();
  file("empty", "");
  EXPECT_EQ(space({"cp", "--json", dir + "/empty", "demo:/root"}), 0) << err;
  EXPECT_EQ(queries("PUT"), std::vector<std::string>{"path=%2Froot%2Fempty&mode=0644&parents=true"});
  EXPECT_EQ(json(), boost::json::parse(R"({"id":"demo","files":1,"directories":0,"bytes":0,"skipped":0})"));
}

TEST_F(Cp, UploadsATreeWithoutItsLinks) {
  remote_is("");
  accept_uploads();
  os::make_directories(dir + "/tree/sub", 0755).value();
  file("tree/one", "1");
  file("tree/sub/two", "2", 0600);
  ASSERT_EQ(::symlink("/etc/passwd", (dir + "/tree/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir + "/tree/pipe").c_str(), 0600), 0);
  EXPECT_EQ(space({"cp", "-r", dir + "/tree", "demo:/t"}), 0) << err;
  EXPECT_EQ(queries("PUT"), (std::vector<std::string>{"path=%2Ft%2Fone&mode=0644&parents=true",
                                                      "path=%2Ft%2Fsub%2Ftwo&mode=0600&parents=true"}));
  EXPECT_NE(err.find("link: it is a symbolic link"), std::string::npos) << err;
  EXPECT_NE(err.find("pipe: it is no regular file"), std::string::npos) << err;
}

TEST_F(Cp, UploadsStandardInputInChunks) {
  accept_uploads();
  EXPECT_EQ(space_with_input({"cp", "-", "demo:/f"}, std::string(300'000, 's')), 0) << err;
  EXPECT_EQ(server.asked()[0].body, std::string(300'000, 's'));
}

TEST_F(Cp, SaysWhyAnUploadFailed) {
  remote_is("");
  server.on("PUT", files, [](const Asked&) {
    return Answer{507, json_error("resource_exhausted", "guest.disk_full", "no space"), {}};
  });
  file("f", "x");
  EXPECT_EQ(space({"cp", dir + "/f", "demo:/f"}), 1);
  EXPECT_NE(err.find("no space (guest.disk_full)"), std::string::npos) << err;
  EXPECT_EQ(space({"cp", dir + "/nothing", "demo:/f"}), 1);
  EXPECT_EQ(space({"cp", dir, "demo:/f"}), 2);  // a directory without -r
}

TEST_F(Cp, DownloadsAFileWithItsModeOverWhatWasThere) {
  remote_is("regular");
  remote_file("new content");
  file("in", "old");
  EXPECT_EQ(space({"cp", "demo:/root/f", target}), 0) << err;
  EXPECT_EQ(*os::read_file(target), "new content");
  EXPECT_EQ(mode_of(target) & 07777U, 0751U);
  EXPECT_EQ(space({"cp", "demo:/root/f", dir}), 0) << err;
  EXPECT_EQ(*os::read_file(dir + "/f"), "new content");
  EXPECT_EQ(space({"cp", "demo:/root/f", "-"}), 0) << err;
  EXPECT_EQ(out, "new content");
}

TEST_F(Cp, ADownloadThatBreaksLeavesTheOldFileAndNothingElse) {
  remote_is("regular");
  remote_file(std::string(100'000, 'n'), 50'000);
  file("in", "old");
  EXPECT_EQ(space({"cp", "demo:/f", target}), 1);
  EXPECT_EQ(*os::read_file(target), "old");
  EXPECT_EQ(os::list_directory(dir)->size(), 1U);
}

TEST_F(Cp, DownloadsATreeWithoutLinksAndDevices) {
  remote_is("directory");
  remote_lists(info("a", "regular") + "," + info("sub", "directory", "0750") + "," + info("l", "symlink") +
               "," + info("d", "block_device"));
  remote_file("content");
  EXPECT_EQ(space({"cp", "-r", "demo:/tree", target}), 0) << err;
  EXPECT_EQ(*os::list_directory(target), (std::vector<std::string>{"a", "sub"}));
  EXPECT_EQ(mode_of(target + "/sub") & 0777U, 0750U);
  EXPECT_NE(err.find("/tree/l: it is a symbolic link"), std::string::npos) << err;
  EXPECT_EQ(space({"cp", "demo:/tree", target}), 2);
}

TEST_F(Cp, HostileNamesInAListingStopTheCopyAndWriteNothingOutside) {
  remote_is("directory");
  remote_file("evil");
  for (const char* name : {"../escape", "..", "/etc/escape", "/tree/../escape", "sub/escape", "", "."}) {
    for (const char* kind : {"regular", "directory"}) {
      os::remove_tree(target).ignore("absent the first time");
      remote_lists(info(name, kind));
      EXPECT_EQ(space({"cp", "-r", "demo:/tree", target}), 1) << name;
      EXPECT_NE(err.find("cli.hostile_name"), std::string::npos) << err;
      EXPECT_TRUE(os::list_directory(target)->empty()) << name;
      EXPECT_EQ(os::list_directory(dir)->size(), 1U) << name;
    }
  }
}

TEST_F(Cp, AnEntryCannotBeALinkFirstAndADirectoryThen) {
  os::make_directory(dir + "/outside").value();
  os::make_directory(target).value();
  os::make_directory(target + "/tree").value();
  ASSERT_EQ(::symlink("../../outside", (target + "/tree/sub").c_str()),
            0);  // as an earlier, careless tool left it
  remote_is("directory");
  remote_lists(info("sub", "directory"));
  EXPECT_EQ(space({"cp", "-r", "demo:/tree", target}), 1);
  EXPECT_TRUE(os::list_directory(dir + "/outside")->empty());
}

TEST_F(Cp, ATreeWithoutEndIsRefused) {
  remote_is("directory");
  server.on("GET", files + "/list",
            [](const Asked&) { return Answer{200, R"({"items":[)" + info("d", "directory") + "]}", {}}; });
  EXPECT_EQ(space({"cp", "-r", "demo:/tree", target}), 1);
  EXPECT_NE(err.find("cli.too_deep"), std::string::npos) << err;
}

}  // namespace
}  // namespace space::cli
