// SPDX-License-Identifier: Apache-2.0
#include "vault/keys/key_server.h"

#include "api/vault_generated.h"
#include "lib/crypto/aead.h"
#include "lib/wire/message.h"

namespace space::vault::keys {
namespace {

std::vector<std::uint8_t> octets(ByteView bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());  // SAFETY: bytes alias
  return {begin, begin + bytes.size()};
}
ByteView view(const std::vector<std::uint8_t>& octets) {
  return std::as_bytes(std::span(octets));
}

// A reply with key bytes, wiped once it is packed.
Bytes pack_and_wipe(vaultapi::DataKeyT reply) {
  vaultapi::ReplyT envelope;
  envelope.body.Set(std::move(reply));
  Bytes packed = wire::pack(envelope);
  crypto::wipe(std::as_writable_bytes(std::span(envelope.body.AsDataKey()->key)));
  return packed;
}

}  // namespace

async::Task<void> KeyServer::answer(rpc::Call call) {
  Bytes request = call.request();
  auto reply = co_await pool_.run([this, &request] { return work(request); });
  crypto::wipe(request);
  if (!reply.ok()) {
    log_.warning("key_refused", {{"reason", reply.error().reason}, {"message", reply.error().message}});
    call.finish(std::move(reply).error());
    co_return;
  }
  auto sent = co_await call.send_message(*reply);
  crypto::wipe(*reply);
  call.finish(sent);
}

Result<Bytes> KeyServer::work(ByteView bytes) {
  SPACE_TRY(auto request, wire::unpack<vaultapi::RequestT>(bytes));
  vaultapi::DataKeyT reply;
  if (auto* generate = request.body.AsGenerateKey()) {
    crypto::SecretBytes key(crypto::kKeyBytes);
    random_.fill(key.writable());
    SPACE_TRY(Bytes wrapped, kms_.wrap(TenantId(generate->tenant), key));
    reply.key = octets(key.view());
    reply.wrapped = octets(wrapped);
  } else if (auto* wrap = request.body.AsWrapKey()) {
    auto key = crypto::SecretBytes::copy_of(view(wrap->key));
    crypto::wipe(std::as_writable_bytes(std::span(wrap->key)));
    SPACE_TRY(Bytes wrapped, kms_.wrap(TenantId(wrap->tenant), key));
    reply.wrapped = octets(wrapped);
  } else if (auto* unwrap = request.body.AsUnwrapKey()) {
    SPACE_TRY(auto key, kms_.unwrap(TenantId(unwrap->tenant), view(unwrap->wrapped)));
    reply.key = octets(key.view());
  } else {
    return make_error(Code::kUnimplemented, "vault.unknown_request", "this vault doesn't know the request");
  }
  return pack_and_wipe(std::move(reply));
}

}  // namespace space::vault::keys
