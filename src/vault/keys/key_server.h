// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers api/vault.fbs on the key socket: data keys for the imager. One loop; the key service runs on
// `pool`, since it may block. Resource type.

#include "lib/async/blocking_pool.h"
#include "lib/async/task.h"
#include "lib/obs/log.h"
#include "lib/os/random.h"
#include "lib/rpc/call.h"
#include "vault/keys/kms.h"

namespace space::vault::keys {

class KeyServer {
 public:
  // All must outlive the server.
  KeyServer(Kms& kms, os::Random& random, async::BlockingPool& pool, const obs::Log& log)
      : kms_(kms), random_(random), pool_(pool), log_(log) {}

  // A handler for rpc::Server.
  async::Task<void> answer(rpc::Call call);

 private:
  Result<Bytes> work(ByteView request);

  Kms& kms_;
  os::Random& random_;
  async::BlockingPool& pool_;
  const obs::Log& log_;
};

}  // namespace space::vault::keys
