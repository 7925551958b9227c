// SPDX-License-Identifier: Apache-2.0
#include "node/doctor/check.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "node/doctor/looks.h"

namespace space::node::doctor {
namespace {

TEST(DoctorChild, GivesItsFinding) {
  Finding finding = in_child(0, Status::kFail, [] { return Finding{Status::kOk, "seen"}; });
  EXPECT_EQ(finding.status, Status::kOk);
  EXPECT_EQ(finding.found, "seen");
}

TEST(DoctorChild, ThatHangsIsKilled) {
  Finding finding = in_child(
      0, Status::kWarn,
      []() -> Finding {
        for (;;) ::pause();
      },
      std::chrono::milliseconds(50));
  EXPECT_EQ(finding.status, Status::kWarn);
  EXPECT_NE(finding.found.find("no answer"), std::string::npos);
}

TEST(DoctorChild, ThatDiesIsNoSuccess) {
  Finding finding = in_child(0, Status::kFail, []() -> Finding { ::_exit(0); });
  EXPECT_EQ(finding.status, Status::kFail);
}

TEST(DoctorLooks, SeeADiskThatIsNotThere) {
  EXPECT_EQ(look_at_disk("/nonexistent").status, Status::kFail);
  EXPECT_NE(look_at_disk("/").found.find(" free on /"), std::string::npos);
}

TEST(DoctorLooks, LeaveNoTraceInThisProcess) {
  // The lowest free descriptor tells whether one was left open.
  int next = ::dup(0);
  ::close(next);
  look_at_seccomp();
  look_at_write_tracking();
  look_at_pagemap_scan();
  int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(next, after);
}

}  // namespace
}  // namespace space::node::doctor
