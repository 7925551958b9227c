// SPDX-License-Identifier: Apache-2.0
#include "lib/http/gunzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace space::http {
namespace {

std::string gzip(const std::string& plain) {
  z_stream z{};
  deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, plain.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// Feeds `packed` in pieces of `piece` bytes into a small output; empty on error.
std::string unpack(const std::string& packed, std::size_t piece, bool& complete) {
  Gunzip gunzip;
  std::string plain;
  std::array<std::byte, 97> out;
  for (std::size_t at = 0; at < packed.size();) {
    auto step = gunzip.step(as_bytes(std::string_view(packed).substr(at, piece)), out);
    if (!step.ok()) return "";
    at += step->consumed;
    plain.append(reinterpret_cast<const char*>(out.data()), step->produced);
    if (step->consumed == 0 && step->produced == 0) break;
  }
  for (;;) {  // what is still inside
    auto step = gunzip.step({}, out);
    if (!step.ok() || step->produced == 0) break;
    plain.append(reinterpret_cast<const char*>(out.data()), step->produced);
  }
  complete = gunzip.complete();
  return plain;
}

TEST(Gunzip, AnyPiecesGiveTheSameBytes) {
  std::string plain;
  for (int i = 0; i < 20'000; ++i) plain += std::to_string(i * 7919 % 1000);
  bool complete = false;
  EXPECT_EQ(unpack(gzip(plain), 1, complete), plain);
  EXPECT_TRUE(complete);
  EXPECT_EQ(unpack(gzip(plain), 4096, complete), plain);
  EXPECT_TRUE(complete);
}

TEST(Gunzip, MembersOneAfterTheOtherAreOneStream) {
  bool complete = false;
  EXPECT_EQ(unpack(gzip("hello ") + gzip("world"), 5, complete), "hello world");
  EXPECT_TRUE(complete);
}

TEST(Gunzip, ACutStreamIsNotComplete) {
  bool complete = true;
  std::string packed = gzip(std::string(1000, 'x'));
  unpack(packed.substr(0, packed.size() - 4), 64, complete);
  EXPECT_FALSE(complete);
}

TEST(Gunzip, OtherBytesAreAnError) {
  Gunzip gunzip;
  std::array<std::byte, 16> out;
  EXPECT_EQ(gunzip.step(as_bytes("this is not gzip"), out).error().reason, "http.malformed_gzip");
}

}  // namespace
}  // namespace space::http
