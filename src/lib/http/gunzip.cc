// SPDX-License-Identifier: Apache-2.0
#include "lib/http/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "lib/base/check.h"

namespace space::http {

struct Gunzip::State {
  z_stream stream{};
};

Gunzip::Gunzip() : state_(std::make_unique<State>()) {
  constexpr int kGzipOnly = 16;
  SPACE_CHECK(inflateInit2(&state_->stream, MAX_WBITS + kGzipOnly) == Z_OK);
}

Gunzip::~Gunzip() {
  inflateEnd(&state_->stream);
}

Result<Gunzip::Step> Gunzip::step(ByteView in, std::span<std::byte> out) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  z_stream& z = state_->stream;
  if (complete_ && !in.empty()) {
    inflateReset(&z);
    complete_ = false;
  }
  // SAFETY: zlib reads but never writes its input; bytes alias.
  z.next_in = const_cast<Bytef*>(
      reinterpret_cast<const Bytef*>(in.data()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  z.avail_in = static_cast<uInt>(std::min(in.size(), kMost));
  z.next_out = reinterpret_cast<Bytef*>(out.data());  // SAFETY: bytes alias
  z.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
  const uInt had_in = z.avail_in;
  const uInt had_out = z.avail_out;
  int outcome = inflate(&z, Z_NO_FLUSH);
  if (outcome == Z_STREAM_END) complete_ = true;
  if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR) {
    return make_error(Code::kInvalidArgument, "http.malformed_gzip", "the body is not a valid gzip stream");
  }
  return Step{had_in - z.avail_in, had_out - z.avail_out};
}

}  // namespace space::http
