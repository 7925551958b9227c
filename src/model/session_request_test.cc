// SPDX-License-Identifier: Apache-2.0
#include "model/session_request.h"

#include <gtest/gtest.h>

namespace space::model {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr Resources kDefaults{1, 512 * kMiB, 8192 * kMiB};
constexpr HostSize kHost{2, 24576 * kMiB};

std::string reason(const Result<void>& outcome) {
  return outcome.ok() ? "ok" : outcome.error().reason;
}
std::string field(const Result<Resources>& outcome) {
  return outcome.ok() ? "ok" : outcome.error().field;
}

TEST(SessionName, AcceptsHostNameLabels) {
  for (const char* name : {"a", "0", "web-1", "a--b"}) EXPECT_EQ(reason(check_name(name)), "ok") << name;
  EXPECT_EQ(reason(check_name(std::string(63, 'x'))), "ok");
}

TEST(SessionName, RefusesEverythingElse) {
  for (std::string name :
       {std::string(), std::string("a/b"), std::string("../x"), std::string("a\0b", 3), std::string(300, 'a'),
        std::string(64, 'a'), std::string("-a"), std::string("a-"), std::string("A"), std::string("a b"),
        std::string("ü"), std::string("a\n"), std::string(".")}) {
    EXPECT_EQ(reason(check_name(name)), "model.bad_name") << name.size();
  }
  EXPECT_EQ(check_name("/").error().field, "name");
}

TEST(TemplateName, AllowsInnerDotsButNoPaths) {
  EXPECT_EQ(reason(check_template_name("debian-12.1")), "ok");
  for (const char* name : {"", "..", "a/../b", "/etc", ".hidden", "a."}) {
    EXPECT_EQ(reason(check_template_name(name)), "model.bad_template_name") << name;
  }
}

TEST(SessionTtl, ZeroAndMoreThanAWeekAreRefused) {
  EXPECT_EQ(reason(check_ttl(0)), "model.bad_ttl");
  EXPECT_EQ(reason(check_ttl(1)), "ok");
  EXPECT_EQ(reason(check_ttl(kMaxTtlSeconds)), "ok");
  EXPECT_EQ(reason(check_ttl(kMaxTtlSeconds + 1)), "model.bad_ttl");
}

TEST(SessionLabels, AreBounded) {
  EXPECT_EQ(reason(check_labels({{"team/app", "x y ü"}})), "ok");
  EXPECT_EQ(reason(check_labels({{"", "x"}})), "model.bad_labels");
  EXPECT_EQ(reason(check_labels({{"a b", "x"}})), "model.bad_labels");
  EXPECT_EQ(reason(check_labels({{"a", std::string(256, 'x')}})), "model.bad_labels");
  EXPECT_EQ(reason(check_labels({{"a", "x\ny"}})), "model.bad_labels");
  Labels many;
  for (std::size_t i = 0; i <= kMaxLabels; ++i) many["k" + std::to_string(i)] = "v";
  EXPECT_EQ(reason(check_labels(many)), "model.bad_labels");
}

TEST(SessionResources, AbsentFieldsTakeTheTemplatesDefaults) {
  EXPECT_EQ(*resolve_resources({}, kDefaults, kHost), kDefaults);
}

TEST(SessionResources, GivenFieldsWin) {
  SessionRequest request;
  request.vcpus = 2;
  request.memory_bytes = 1024 * kMiB;
  request.disk_bytes = 16384 * kMiB;
  EXPECT_EQ(*resolve_resources(request, kDefaults, kHost), (Resources{2, 1024 * kMiB, 16384 * kMiB}));
}

TEST(SessionResources, MemoryOutsideItsBoundsNamesTheField) {
  SessionRequest request;
  for (std::uint64_t bytes : {std::uint64_t{0}, kMiB, kMinMemoryBytes - kMiB, kMinMemoryBytes + 1,
                              kHost.memory_bytes + kMiB, ~std::uint64_t{0}}) {
    request.memory_bytes = bytes;
    EXPECT_EQ(field(resolve_resources(request, kDefaults, kHost)), "memory_bytes") << bytes;
  }
  request.memory_bytes = kHost.memory_bytes;
  EXPECT_EQ(field(resolve_resources(request, kDefaults, kHost)), "ok");
}

TEST(SessionResources, VcpusOutsideTheHostNameTheField) {
  SessionRequest request;
  for (std::uint64_t vcpus : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{1} << 40}) {
    request.vcpus = vcpus;
    EXPECT_EQ(field(resolve_resources(request, kDefaults, kHost)), "vcpus") << vcpus;
  }
}

TEST(SessionResources, ADiskSmallerThanTheTemplateIsRefused) {
  SessionRequest request;
  for (std::uint64_t bytes :
       {std::uint64_t{0}, kDefaults.disk_bytes - kMiB, kMaxDiskBytes + kMiB, kDefaults.disk_bytes + 1}) {
    request.disk_bytes = bytes;
    EXPECT_EQ(field(resolve_resources(request, kDefaults, kHost)), "disk_bytes") << bytes;
  }
}

TEST(SessionRequest, NonsenseIsRefusedWithoutKnowingTheTemplate) {
  SessionRequest request;
  EXPECT_TRUE(check_request(request).ok());
  request.memory_bytes = 0;
  EXPECT_EQ(check_request(request).error().field, "memory_bytes");
  request = {};
  request.name = "x/y";
  EXPECT_EQ(check_request(request).error().field, "name");
  request = {};
  request.ttl_seconds = 0;
  EXPECT_EQ(check_request(request).error().field, "ttl_seconds");
}

}  // namespace
}  // namespace space::model
