// SPDX-License-Identifier: Apache-2.0
#pragma once
// SHA-256 as lower-case hexadecimal, of bytes and of whole files.

#include <memory>
#include <string>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

struct evp_md_ctx_st;

namespace space::node::tmpl {

// Resource type.
class Sha256 {
 public:
  Sha256();
  void update(ByteView data);
  // Ends the computation; call once.
  [[nodiscard]] std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(ByteView data);
// What `sha256sum path` prints. Blocking: about 1 s per GiB; holes are hashed as zeros without being read.
Result<std::string> sha256_file(const std::string& path);

}  // namespace space::node::tmpl
