// SPDX-License-Identifier: Apache-2.0
#include "imager/store/format/sealed_object.h"

#include <cstring>

namespace space::imager::store {
namespace {

constexpr char kMagic[8] = {'S', 'P', 'C', 'O', 'B', 'J', '1', 0};
constexpr std::uint16_t kVersion = 1;
constexpr std::string_view kPurpose = "space.store.object.v1";

Bytes associated_data(ByteView header, const Keys& keys, const std::string& name) {
  Encoder encoder;
  encoder.raw(header);
  encoder(keys.tenant());
  encoder(name);
  return encoder.take();
}

}  // namespace

Result<SealedHeader> decode_sealed_header(ByteView object) {
  auto malformed = [](const char* why) { return make_error(Code::kDataLoss, "store.malformed", why); };
  if (object.size() < kSealedHeaderBytes + crypto::kTagBytes) return malformed("object is too short");
  if (std::memcmp(object.data(), kMagic, sizeof kMagic) != 0) return malformed("not an object of the store");
  if (load_le<std::uint16_t>(object.data() + 8) != kVersion)
    return malformed("unknown version of the format");
  SealedHeader header;
  header.kind = static_cast<ObjectKind>(object[10]);
  std::copy_n(object.begin() + 16, 16, header.key.bytes.begin());
  std::copy_n(object.begin() + 32, 32, header.salt.begin());
  return header;
}

std::string key_id_of(ByteView object) {
  auto header = decode_sealed_header(object);
  return header.ok() ? header->key.hex() : std::string();
}

Result<Bytes> seal_object(const Keys& keys, os::Random& random, ObjectKind kind, const std::string& name,
                          ByteView plain) {
  Bytes object(kSealedHeaderBytes + plain.size() + crypto::kTagBytes);
  std::memcpy(object.data(), kMagic, sizeof kMagic);
  store_le(object.data() + 8, kVersion);
  object[10] = static_cast<std::byte>(kind);
  std::copy(keys.sealing_id().bytes.begin(), keys.sealing_id().bytes.end(), object.begin() + 16);
  std::array<std::byte, 32> salt;
  random.fill(salt);
  std::copy(salt.begin(), salt.end(), object.begin() + 32);
  SPACE_TRY(auto key, keys.object_key(keys.sealing_id(), salt, kPurpose));
  Bytes associated = associated_data(ByteView(object).first(kSealedHeaderBytes), keys, name);
  crypto::Aead aead;
  SPACE_CHECK_OK(aead.set_key(key.view()));
  SPACE_CHECK_OK(aead.seal(crypto::counted_nonce(0, 0), associated, plain,
                           std::span(object).subspan(kSealedHeaderBytes)));
  return object;
}

Result<Bytes> open_object(const Keys& keys, ObjectKind kind, const std::string& name, ByteView object) {
  auto corrupt = [&](const std::string& why) {
    return make_error(Code::kDataLoss, "store.corrupt", name + ": " + why);
  };
  auto header = decode_sealed_header(object);
  if (!header.ok()) return corrupt(header.error().message);
  if (header->kind != kind) return corrupt("is of another kind");
  auto key = keys.object_key(header->key, header->salt, kPurpose);
  if (!key.ok()) return corrupt(key.error().message);
  Bytes associated = associated_data(object.first(kSealedHeaderBytes), keys, name);
  auto plain = crypto::open_once(key->view(), crypto::counted_nonce(0, 0), associated,
                                 object.subspan(kSealedHeaderBytes));
  if (!plain.ok()) return corrupt(plain.error().message);
  return plain;
}

}  // namespace space::imager::store
