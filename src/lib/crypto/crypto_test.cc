// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/crypto/aead.h"
#include "lib/crypto/hash.h"

namespace space::crypto {
namespace {

Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}
Nonce nonce_from(std::string_view hex) {
  Nonce nonce;
  Bytes bytes = from_hex(hex);
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

TEST(Sha256, GivesThePublishedDigest) {
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, BatchEqualsSingles) {
  std::vector<ByteView> parts{as_bytes("a"), as_bytes(""), as_bytes("abc")};
  std::vector<Digest> out(3);
  sha256_batch(parts, out);
  EXPECT_EQ(out[0], sha256(as_bytes("a")));
  EXPECT_EQ(out[2], sha256(as_bytes("abc")));
}

TEST(KeyedHash, GivesThePublishedHmacs) {
  // RFC 4231, cases 2 and 6 (a key longer than a block).
  EXPECT_EQ(to_hex(KeyedHash(as_bytes("Jefe")).mac(as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  Bytes long_key(131, std::byte{0xaa});
  EXPECT_EQ(
      to_hex(KeyedHash(long_key).mac(as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(KeyedHash, ContentIdsDependOnKeyDomainAndContent) {
  KeyedHash one(as_bytes("one"));
  KeyedHash two(as_bytes("two"));
  Digest digest = sha256(as_bytes("content"));
  EXPECT_EQ(one.content_id(1, digest), one.content_id(1, digest));
  EXPECT_NE(one.content_id(1, digest), two.content_id(1, digest));
  EXPECT_NE(one.content_id(1, digest), one.content_id(2, digest));
  EXPECT_NE(one.content_id(1, digest), one.content_id(1, sha256(as_bytes("other"))));
}

TEST(Hkdf, GivesThePublishedKey) {
  // RFC 5869, case 1.
  Bytes secret(22, std::byte{0x0b});
  auto key =
      hkdf_sha256(secret, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"), 42);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(to_hex(key->view()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Aead, GivesThePublishedCiphertext) {
  // NIST GCM test case 16: AES-256 with associated data.
  Bytes key = from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  Bytes plain = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aed"
      "f5aa0de657"
      "ba637b39");
  Bytes associated = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  auto sealed = seal_once(key, nonce_from("cafebabefacedbaddecaf888"), associated, plain);
  ASSERT_TRUE(sealed.ok());
  EXPECT_EQ(to_hex(*sealed),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
            "c5f61e6393ba7a0a"
            "bcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  EXPECT_EQ(*open_once(key, nonce_from("cafebabefacedbaddecaf888"), associated, *sealed), plain);
}

TEST(Aead, AnyChangedByteIsRefusedAndTheOutputWiped) {
  Bytes key(kKeyBytes, std::byte{1});
  Bytes plain = to_bytes("some bytes that matter");
  Nonce nonce = counted_nonce(1, 2);
  Aead aead;
  ASSERT_TRUE(aead.set_key(key).ok());
  Bytes sealed(plain.size() + kTagBytes);
  ASSERT_TRUE(aead.seal(nonce, as_bytes("context"), plain, sealed).ok());
  Bytes out(plain.size());
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    Bytes changed = sealed;
    changed[i] ^= std::byte{0x80};
    ASSERT_EQ(aead.open(nonce, as_bytes("context"), changed, out).error().reason, "crypto.not_authentic")
        << i;
    ASSERT_EQ(out, Bytes(plain.size()));
  }
  EXPECT_FALSE(aead.open(nonce, as_bytes("contexT"), sealed, out).ok());
  EXPECT_FALSE(aead.open(counted_nonce(1, 3), as_bytes("context"), sealed, out).ok());
  ASSERT_TRUE(aead.open(nonce, as_bytes("context"), sealed, out).ok());
  EXPECT_EQ(out, plain);
}

TEST(Aead, SealsAndOpensInPlaceAndTakesANewKey) {
  Aead aead;
  Bytes first(kKeyBytes, std::byte{1});
  Bytes second(kKeyBytes, std::byte{2});
  ASSERT_TRUE(aead.set_key(first).ok());
  Bytes buffer(100 + kTagBytes, std::byte{7});
  ASSERT_TRUE(aead.seal(counted_nonce(0, 0), {}, ByteView(buffer).first(100), buffer).ok());
  ASSERT_TRUE(aead.set_key(second).ok());
  Bytes copy = buffer;
  EXPECT_FALSE(aead.open(counted_nonce(0, 0), {}, copy, std::span(copy).first(100)).ok());
  ASSERT_TRUE(aead.set_key(first).ok());
  ASSERT_TRUE(aead.open(counted_nonce(0, 0), {}, buffer, std::span(buffer).first(100)).ok());
  EXPECT_EQ(Bytes(buffer.begin(), buffer.begin() + 100), Bytes(100, std::byte{7}));
}

TEST(Aead, WithoutAKeyNothingIsSealed) {
  Aead aead;
  Bytes out(kTagBytes);
  EXPECT_EQ(aead.seal(counted_nonce(0, 0), {}, {}, out).error().reason, "crypto.failed");
  EXPECT_EQ(aead.set_key(Bytes(16)).error().reason, "crypto.failed");
}

TEST(SecretBytes, MovingEmptiesTheSource) {
  SecretBytes secret = SecretBytes::copy_of(as_bytes("secret"));
  SecretBytes other = std::move(secret);
  EXPECT_TRUE(secret.empty());  // NOLINT(bugprone-use-after-move): that is the point
  EXPECT_TRUE(equal_constant_time(other.view(), as_bytes("secret")));
  EXPECT_FALSE(equal_constant_time(other.view(), as_bytes("secreT")));
  static_assert(!std::is_copy_constructible_v<SecretBytes>);
}

TEST(SecretBytes, WipeOverwrites) {
  Bytes memory(16, std::byte{9});
  wipe(memory);
  EXPECT_EQ(memory, Bytes(16));
}

}  // namespace
}  // namespace space::crypto
