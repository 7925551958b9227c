// SPDX-License-Identifier: Apache-2.0
#pragma once
// Little-endian records whose reader and writer are one function.
//
// A record type has `template <class A> void fields(A& a, T& t)` that names its fields in order: a(t.x);
// a(t.y);. Run over an Encoder it writes, over a Decoder it reads. Integers have their own width, text and
// bytes a u32 length, lists a u32 count, optionals a u8. The decoder checks every length against what is left
// before it allocates; after the first error all further fields read as empty and finish() reports the
// offset. Pure. Posture: hostile (the disk).

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/result.h"

namespace space::imager::store {

template <class T>
concept Scalar = std::is_unsigned_v<T> && !std::is_same_v<T, bool>;

class Encoder {
 public:
  static constexpr bool kReads = false;
  template <Scalar T>
  void operator()(const T& value) {
    std::byte raw[sizeof(T)];
    store_le(raw, value);
    out_.insert(out_.end(), raw, raw + sizeof(T));
  }
  void operator()(const bool& value) { (*this)(static_cast<std::uint8_t>(value)); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    raw(as_bytes(text));
  }
  void operator()(const Bytes& bytes) {
    (*this)(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes);
  }
  template <std::size_t N>
  void operator()(const std::array<std::byte, N>& bytes) {
    raw(bytes);
  }
  template <class Tag>
  void operator()(const Id<Tag>& id) {
    (*this)(id.str());
  }
  void operator()(const WallTime& time) {
    (*this)(static_cast<std::uint64_t>(time.time_since_epoch().count()));
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<std::uint32_t>(list.size()));
    for (const T& item : list) (*this)(item);
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(const T& value) {
    (*this)(static_cast<std::underlying_type_t<T>>(value));
  }
  template <class T>
    requires(std::is_class_v<T> && requires(Encoder& a, T& t) { fields(a, t); })
  void operator()(const T& value) {
    fields(*this, const_cast<T&>(value));  // NOLINT: fields() over an encoder only reads
  }
  void raw(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

  [[nodiscard]] std::size_t size() const { return out_.size(); }
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

class Decoder {
 public:
  static constexpr bool kReads = true;
  explicit Decoder(ByteView input) : input_(input) {}

  template <Scalar T>
  void operator()(T& value) {
    value = T{};
    if (ByteView raw = take(sizeof(T)); raw.size() == sizeof(T)) value = load_le<T>(raw.data());
  }
  void operator()(bool& value) {
    std::uint8_t raw = 0;
    (*this)(raw);
    if (raw > 1) fail("flag is neither 0 nor 1");
    value = raw == 1;
  }
  void operator()(std::string& text) { text = to_text(sized()); }
  void operator()(Bytes& bytes) { bytes = to_bytes(sized()); }
  template <std::size_t N>
  void operator()(std::array<std::byte, N>& bytes) {
    bytes.fill(std::byte{0});
    if (ByteView raw = take(N); raw.size() == N) std::copy(raw.begin(), raw.end(), bytes.begin());
  }
  template <class Tag>
  void operator()(Id<Tag>& id) {
    std::string text = to_text(sized());
    if (!failed() && !is_well_formed_id(text)) fail("malformed id");
    id = Id<Tag>(failed() ? std::string() : std::move(text));
  }
  void operator()(WallTime& time) {
    std::uint64_t raw = 0;
    (*this)(raw);
    time = WallTime(std::chrono::microseconds(static_cast<std::int64_t>(raw)));
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    bool present = false;
    (*this)(present);
    value.reset();
    if (present) (*this)(value.emplace());
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    list.clear();
    std::uint32_t count = 0;
    (*this)(count);
    if (count > left()) fail("list is longer than the record");  // an item has at least one byte
    for (std::uint32_t i = 0; i < count && !failed(); ++i) (*this)(list.emplace_back());
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(T& value) {
    std::underlying_type_t<T> raw{};
    (*this)(raw);
    value = static_cast<T>(raw);  // the record's own check decides which numbers are known
  }
  template <class T>
    requires(std::is_class_v<T> && requires(Decoder& a, T& t) { fields(a, t); })
  void operator()(T& value) {
    fields(*this, value);
  }

  // `count` bytes as they are; empty after an error.
  ByteView take(std::size_t count) {
    if (failed() || count > left()) {
      fail("record ends too early");
      return {};
    }
    ByteView part = input_.subspan(at_, count);
    at_ += count;
    return part;
  }
  void fail(const char* why) {
    if (why_ == nullptr) why_ = why;
  }
  [[nodiscard]] bool failed() const { return why_ != nullptr; }
  [[nodiscard]] std::size_t left() const { return input_.size() - at_; }
  // Everything was read and nothing is left over. Errors: store.malformed.
  [[nodiscard]] Result<void> finish() const {
    if (!failed() && left() == 0) return {};
    return make_error(Code::kDataLoss, "store.malformed",
                      fmt::format("{} at byte {}", failed() ? why_ : "unexpected bytes", at_));
  }

 private:
  ByteView sized() {
    std::uint32_t length = 0;
    (*this)(length);
    return take(length);
  }
  ByteView input_;
  std::size_t at_ = 0;
  const char* why_ = nullptr;
};

template <class T>
Bytes encode(const T& record) {
  Encoder encoder;
  encoder(record);
  return encoder.take();
}
template <class T>
Result<T> decode(ByteView bytes) {
  Decoder decoder(bytes);
  T record;
  decoder(record);
  SPACE_CHECK_OK(decoder.finish());
  return record;
}

}  // namespace space::imager::store
