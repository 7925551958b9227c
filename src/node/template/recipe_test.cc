// SPDX-License-Identifier: Apache-2.0
#include "node/template/recipe.h"

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

constexpr const char* kWhole = R"(
name = "tools"
description = "everything"
suite = "bookworm"
packages = ["python3", "libstdc++6", "git=1:2.39.5-0+deb12u2"]
init = "systemd"
[defaults]
vcpus = 2
memory = "1GiB"
disk = "4GiB"
[[files]]
path = "/etc/motd"
content = "hello\n"
mode = "0600"
[[run]]
argv = ["npm", "config", "set", "fund", "false"]
)";

// The recipe `name = "x"`, `suite = "bookworm"` with more lines.
std::string with(const std::string& lines) {
  return "name = \"x\"\nsuite = \"bookworm\"\n" + lines;
}

std::string field_of_error(const std::string& text) {
  auto recipe = parse_recipe(text);
  if (recipe.ok()) return "(accepted)";
  EXPECT_EQ(recipe.error().code, Code::kInvalidArgument);
  EXPECT_EQ(recipe.error().reason, "template.malformed_recipe");
  return recipe.error().field;
}

TEST(Recipe, WholeFormIsRead) {
  const auto recipe = parse_recipe(kWhole);
  ASSERT_TRUE(recipe.ok()) << recipe.error().describe();
  EXPECT_EQ(recipe->name, "tools");
  EXPECT_EQ(recipe->suite, "bookworm");
  EXPECT_EQ(recipe->packages.size(), 3u);
  EXPECT_EQ(recipe->init, Init::kSystemd);
  EXPECT_EQ(recipe->defaults, (Defaults{2, 1 * kGiB, 4 * kGiB}));
  EXPECT_EQ(recipe->files, (std::vector<RecipeFile>{{"/etc/motd", "hello\n", 0600}}));
  EXPECT_EQ(recipe->run, (std::vector<RunStep>{{{"npm", "config", "set", "fund", "false"}}}));
}

TEST(Recipe, LeftOutPartsHaveDefaults) {
  const auto recipe = parse_recipe(with(""));
  ASSERT_TRUE(recipe.ok()) << recipe.error().describe();
  EXPECT_EQ(recipe->defaults, (Defaults{1, 512 * kMiB, 8 * kGiB}));
  EXPECT_EQ(recipe->init, Init::kSpaced);
  EXPECT_TRUE(recipe->packages.empty());
}

TEST(Recipe, SystemdBringsItsPackages) {
  const auto recipe = parse_recipe(with("packages = [\"dbus\", \"curl\"]\ninit = \"systemd\""));
  ASSERT_TRUE(recipe.ok());
  EXPECT_EQ(recipe->all_packages(), (std::vector<std::string>{"curl", "dbus", "systemd", "systemd-sysv"}));
}

TEST(Recipe, MisspeltKeyIsNamed) {
  EXPECT_EQ(field_of_error(with("pakages = []")), "pakages");
  EXPECT_EQ(field_of_error(with("[defaults]\nram = \"1GiB\"")), "defaults.ram");
  EXPECT_EQ(field_of_error(with("[[run]]\nshell = \"true\"")), "run.shell");
}

TEST(Recipe, BadNamesAreRefused) {
  EXPECT_EQ(field_of_error("suite = \"bookworm\""), "name");
  EXPECT_EQ(field_of_error("name = \"../x\"\nsuite = \"bookworm\""), "name");
  EXPECT_EQ(field_of_error("name = \"-x\"\nsuite = \"bookworm\""), "name");
  EXPECT_EQ(field_of_error("name = \"" + std::string(64, 'a') + "\"\nsuite = \"bookworm\""), "name");
  EXPECT_EQ(field_of_error("name = \"x\"\nsuite = \"book worm\""), "suite");
}

TEST(Recipe, PackageThatAptWouldReadAsAnOptionOrPatternIsRefused) {
  EXPECT_EQ(field_of_error(with("packages = [\"-oDir=/\"]")), "packages");
  EXPECT_EQ(field_of_error(with("packages = [\"~nfoo\"]")), "packages");
  EXPECT_EQ(field_of_error(with("packages = [\"a,b\"]")), "packages");
  EXPECT_EQ(field_of_error(with("packages = [\"\"]")), "packages");
  EXPECT_EQ(field_of_error(with("packages = [7]")), "packages");
}

TEST(Recipe, SizesOutsideTheirRangeAreRefused) {
  EXPECT_EQ(field_of_error(with("[defaults]\nvcpus = 0")), "defaults.vcpus");
  EXPECT_EQ(field_of_error(with("[defaults]\nvcpus = 257")), "defaults.vcpus");
  EXPECT_EQ(field_of_error(with("[defaults]\nmemory = \"1MiB\"")), "defaults.memory");
  EXPECT_EQ(field_of_error(with("[defaults]\nmemory = \"lots\"")), "defaults.memory");
  EXPECT_EQ(field_of_error(with("[defaults]\ndisk = \"1MiB\"")), "defaults.disk");
  EXPECT_EQ(field_of_error(with("[defaults]\ndisk = \"2PiB\"")), "defaults.disk");
}

TEST(Recipe, FilePathOutOfTheRootIsRefused) {
  EXPECT_EQ(field_of_error(with("[[files]]\npath = \"etc/x\"")), "files.path");
  EXPECT_EQ(field_of_error(with("[[files]]\npath = \"/etc/../../x\"")), "files.path");
  EXPECT_EQ(field_of_error(with("[[files]]\npath = \"/etc/\"")), "files.path");
  EXPECT_EQ(field_of_error(with("[[files]]\npath = \"/x\"\nmode = \"rw\"")), "files.mode");
}

TEST(Recipe, StepWithoutProgramIsRefused) {
  EXPECT_EQ(field_of_error(with("[[run]]\nargv = []")), "run.argv");
}

TEST(Recipe, BrokenTomlNamesTheLine) {
  const auto recipe = parse_recipe("name = \"x\"\nsuite = \n");
  ASSERT_FALSE(recipe.ok());
  EXPECT_NE(recipe.error().message.find("line 2"), std::string::npos) << recipe.error().message;
}

TEST(RecipeDigest, IgnoresWhatDoesNotShapeTheDisk) {
  const auto a = parse_recipe(with("packages = [\"git\", \"curl\"]"));
  const auto b = parse_recipe(
      with("packages = [\"curl\", \"git\", \"git\"]\ndescription = \"new\"\n[defaults]\nvcpus = 4"));
  EXPECT_EQ(a->digest(), b->digest());
}

TEST(RecipeDigest, ChangesWithEverythingThatShapesTheDisk) {
  const std::string plain = parse_recipe(with(""))->digest();
  EXPECT_NE(plain, parse_recipe(with("packages = [\"git\"]"))->digest());
  EXPECT_NE(plain, parse_recipe(with("init = \"systemd\""))->digest());
  EXPECT_NE(plain, parse_recipe(with("[defaults]\ndisk = \"9GiB\""))->digest());
  EXPECT_NE(plain, parse_recipe(with("[[files]]\npath = \"/x\""))->digest());
  EXPECT_NE(plain, parse_recipe(with("[[run]]\nargv = [\"true\"]"))->digest());
  EXPECT_NE(plain, parse_recipe("name = \"x\"\nsuite = \"trixie\"")->digest());
  EXPECT_NE(parse_recipe(with("[[run]]\nargv = [\"a\", \"bc\"]"))->digest(),
            parse_recipe(with("[[run]]\nargv = [\"ab\", \"c\"]"))->digest());
}

TEST(LoadRecipe, FileMustBeNamedAfterTheRecipe) {
  const TestDir dir;
  const auto recipe = load_recipe(dir.write("y.toml", with("")));
  ASSERT_FALSE(recipe.ok());
  EXPECT_EQ(recipe.error().field, "name");
}

TEST(LoadRecipe, AbsentFileIsNotFound) {
  const auto recipe = load_recipe("/nowhere/x.toml");
  ASSERT_FALSE(recipe.ok());
  EXPECT_EQ(recipe.error().reason, "template.recipe_not_found");
}

}  // namespace
}  // namespace space::node::tmpl
