// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "api/vault_generated.h"
#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "lib/rpc/client.h"
#include "lib/rpc/server.h"
#include "lib/wire/message.h"
#include "vault/keys/key_server.h"
#include "vault/keys/local_kms.h"

namespace space::vault::keys {
namespace {

using namespace std::chrono_literals;

const TenantId kOne("tenantonetenantone01");
const TenantId kTwo("tenanttwotenanttwo02");

struct LocalKmsTest : ::testing::Test {
  os::SystemRandom random;
  std::string dir;
  crypto::SecretBytes key{32};

  void SetUp() override {
    char pattern[] = "/tmp/space-keys-XXXXXX";
    dir = ::mkdtemp(pattern);
    random.fill(key.writable());
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
  std::unique_ptr<Kms> open() { return std::move(*open_local_kms(dir, random)); }
};

TEST_F(LocalKmsTest, WrappedKeysOpenAfterARestart) {
  Bytes wrapped = *open()->wrap(kOne, key);
  auto again = *open()->unwrap(kOne, wrapped);
  EXPECT_TRUE(crypto::equal_constant_time(again.view(), key.view()));
}

TEST_F(LocalKmsTest, AnotherTenantOrAChangedByteOpensNothing) {
  auto kms = open();
  Bytes wrapped = *kms->wrap(kOne, key);
  kms->wrap(kTwo, key).ignore("so that the tenant has a key of its own");
  EXPECT_EQ(kms->unwrap(kTwo, wrapped).error().reason, "vault.malformed_key");
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    Bytes changed = wrapped;
    changed[i] ^= std::byte{1};
    EXPECT_FALSE(kms->unwrap(kOne, changed).ok()) << i;
  }
  EXPECT_EQ(kms->unwrap(kOne, {}).error().reason, "vault.malformed_key");
  EXPECT_EQ(kms->wrap(TenantId("../../etc/passwd"), key).error().reason, "vault.malformed_tenant");
}

TEST_F(LocalKmsTest, ALostTenantKeyIsUnavailableAndALostRootKeyIsSaid) {
  Bytes wrapped = *open()->wrap(kOne, key);
  ASSERT_TRUE(os::remove_tree(dir + "/" + kOne.str() + ".keys").ok());
  EXPECT_EQ(open()->unwrap(kOne, wrapped).error().reason, "vault.key_unavailable");
  open()->wrap(kTwo, key).ignore("makes a key file");
  ASSERT_TRUE(os::remove_tree(dir + "/root.key").ok());
  EXPECT_EQ(open_local_kms(dir, random).error().reason, "vault.root_key");
}

TEST_F(LocalKmsTest, TheRootKeyIsNobodyElses) {
  open();
  EXPECT_EQ(os::read_file(dir + "/root.key")->size(), 32U);
}

async::Task<void> ask(rpc::Client& client, rpc::Server& server, crypto::SecretBytes& first,
                      crypto::SecretBytes& second) {
  vaultapi::GenerateKeyT generate;
  generate.tenant = kOne.str();
  auto made = co_await client.unary(wire::pack_body<vaultapi::RequestT>(generate), 5s);
  auto key = *wire::unpack_body<vaultapi::ReplyT, vaultapi::DataKeyT>(*made);
  vaultapi::UnwrapKeyT unwrap;
  unwrap.tenant = kOne.str();
  unwrap.wrapped = key.wrapped;
  auto opened = *wire::unpack_body<vaultapi::ReplyT, vaultapi::DataKeyT>(
      *co_await client.unary(wire::pack_body<vaultapi::RequestT>(unwrap), 5s));
  first = crypto::SecretBytes::copy_of(std::as_bytes(std::span(key.key)));
  second = crypto::SecretBytes::copy_of(std::as_bytes(std::span(opened.key)));
  unwrap.wrapped[20] ^= 1;
  auto refused = co_await client.unary(wire::pack_body<vaultapi::RequestT>(unwrap), 5s);
  EXPECT_EQ(refused.error().reason, "vault.malformed_key");
  auto garbage = co_await client.unary(to_bytes("garbage garbage"), 5s);
  EXPECT_EQ(garbage.error().reason, "wire.malformed_message");
  co_await client.stop();
  co_await server.stop();
}

TEST_F(LocalKmsTest, TheSocketGivesKeysAndRefusesNonsense) {
  async::Loop loop;
  async::BlockingPool pool(1);
  SystemClock clock;
  obs::Log log(2, "vault", clock, obs::Level::kError);
  auto kms = open();
  KeyServer keys(*kms, random, pool, log);
  rpc::Server server(loop.get_executor(), *os::listen_unix(dir + "/s"),
                     [&](rpc::Call call) { return keys.answer(std::move(call)); });
  server.start();
  rpc::Client client(loop.get_executor(), random, "vault", rpc::Client::to_path(dir + "/s"));
  crypto::SecretBytes first, second;
  boost::asio::co_spawn(loop, ask(client, server, first, second), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  loop.run();
  EXPECT_EQ(first.size(), 32U);
  EXPECT_TRUE(crypto::equal_constant_time(first.view(), second.view()));
}

}  // namespace
}  // namespace space::vault::keys
