// SPDX-License-Identifier: Apache-2.0
#include "node/template/build_main.h"

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

int run(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return build_template_main(static_cast<int>(arguments.size()), argv.data());
}

TEST(BuildTemplateMain, WrongArgumentsEndWithTwo) {
  EXPECT_EQ(run({"build-template"}), 2);
  EXPECT_EQ(run({"build-template", "--recipe", "x", "--out", "y", "--frob"}), 2);
}

TEST(BuildTemplateMain, AbsentRecipeEndsWithOneAndAJsonError) {
  testing::internal::CaptureStdout();
  const int status =
      run({"build-template", "--recipe", "/nowhere/x.toml", "--out", "/nowhere/out", "--json"});
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 1);
  EXPECT_EQ(out.find("{\"error\":{\"code\":\"not_found\",\"reason\":\"template.recipe_not_found\""), 0u)
      << out;
}

TEST(BuildTemplateMain, AbsentDaemonIsReportedBeforeAnythingIsDone) {
  const TestDir dir;
  const std::string recipe = dir.write("x.toml", "name = \"x\"\nsuite = \"bookworm\"\n");
  EXPECT_EQ(
      run({"build-template", "--recipe", recipe, "--out", dir / "out/x", "--spaced", "/nowhere/spaced"}), 1);
  EXPECT_FALSE(os::exists(dir / "out"));
}

TEST(Locations, BuildTreeAndInstallationHaveTheSameShape) {
  const Locations places = locate("/src/build/release/bin");
  EXPECT_EQ(places.spaced, "/src/build/release/bin/spaced");
  EXPECT_EQ(places.mkinitramfs, "/src/build/release/share/space/templates/mkinitramfs");
  EXPECT_EQ(places.template_dirs,
            (std::vector<std::string>{"/src/build/release/templates", "/src/build/templates"}));
}

}  // namespace
}  // namespace space::node::tmpl
