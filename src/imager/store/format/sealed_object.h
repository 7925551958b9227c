// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small sealed objects: root records, heads, histories, collector state, leases, prefetch lists.
//
//   0  8 B  "SPCOBJ1\0"     16 16 B  data key id      64  sealed record (ciphertext, 16 B tag)
//   8  u16  version = 1     32 32 B  salt
//  10  u8   kind            The key is HKDF(data key, salt, "space.store.object.v1"): one key, one message,
//  so the nonce 11  5 B  zero            is zero. Associated data: the first 64 bytes, the tenant and the
//  object's name.
// The tag is the record's MAC: it binds the record to its tenant, kind, name and key.

#include "imager/store/format/codec.h"
#include "imager/store/format/key_ring.h"

namespace space::imager::store {

enum class ObjectKind : std::uint8_t {
  kRoot = 1,
  kHead = 2,
  kHistory = 3,
  kCollector = 4,
  kLease = 5,
  kPrefetch = 6
};

inline constexpr std::size_t kSealedHeaderBytes = 64;
inline constexpr std::size_t kMaxSealedBytes = 64u << 20;

struct SealedHeader {
  ObjectKind kind{};
  KeyId key;
  std::array<std::byte, 32> salt{};
};
// Errors: store.malformed.
Result<SealedHeader> decode_sealed_header(ByteView object);

Result<Bytes> seal_object(const Keys& keys, os::Random& random, ObjectKind kind, const std::string& name,
                          ByteView plain);
// Errors: store.corrupt (names the object), store.unknown_key.
Result<Bytes> open_object(const Keys& keys, ObjectKind kind, const std::string& name, ByteView object);

// The id of the data key that sealed `object`, as hex; empty when it cannot be read.
std::string key_id_of(ByteView object);

// Errors store.corrupt and store.missing begin with the name of their object, which has neither blank nor
// colon.
inline std::string object_named_by(const Error& error) {
  return error.message.substr(0, error.message.find_first_of(": "));
}

template <class T>
Result<T> open_record(const Keys& keys, ObjectKind kind, const std::string& name, ByteView object) {
  SPACE_TRY(Bytes plain, open_object(keys, kind, name, object));
  auto record = decode<T>(plain);
  if (!record.ok()) return make_error(Code::kDataLoss, "store.corrupt", name + ": " + record.error().message);
  return record;
}
template <class T>
Result<Bytes> seal_record(const Keys& keys, os::Random& random, ObjectKind kind, const std::string& name,
                          const T& record) {
  return seal_object(keys, random, kind, name, encode(record));
}

}  // namespace space::imager::store
