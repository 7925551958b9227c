// SPDX-License-Identifier: Apache-2.0
#pragma once
// A temporary directory for the tests of this folder. Resource type.

#include <stdlib.h>
#include <sys/stat.h>

#include <string>

#include <gtest/gtest.h>

#include "lib/os/file.h"

namespace space::node::tmpl {

class TestDir {
 public:
  TestDir() {
    std::string pattern = testing::TempDir() + "space-template-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;
  ~TestDir() { os::remove_tree(path_).ignore("a left-over of a test"); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file, with its directories; returns its path.
  std::string write(const std::string& name,
                    std::string_view content) const {  // NOLINT(modernize-use-nodiscard)
    const std::string path = path_ + "/" + name;
    os::make_directories(path.substr(0, path.rfind('/')), 0755).value();
    os::write_file_atomic(path, content, os::Durability::kBuffered, 0644).value();
    return path;
  }

 private:
  std::string path_;
};

}  // namespace space::node::tmpl
