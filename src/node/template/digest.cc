// SPDX-License-Identifier: Apache-2.0
#include "node/template/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/check.h"
#include "lib/os/file.h"

namespace space::node::tmpl {

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  SPACE_CHECK(context_ != nullptr);
  SPACE_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(ByteView data) {
  SPACE_CHECK(EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest;
  unsigned size = 0;
  SPACE_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1 && size == digest.size());
  return to_hex(std::as_bytes(std::span(digest)));
}

std::string sha256_hex(ByteView data) {
  Sha256 sha;
  sha.update(data);
  return sha.hex();
}

namespace {

constexpr std::size_t kChunk = 1u << 20;

}  // namespace

Result<std::string> sha256_file(const std::string& path) {
  SPACE_TRY(os::Fd fd, os::open_file(path, O_RDONLY));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return errno_error(errno, "os.file", "cannot stat " + path);
  Sha256 sha;
  Bytes buffer(kChunk);
  const Bytes zeros(kChunk);
  off_t at = 0;
  while (at < st.st_size) {
    off_t data = ::lseek(fd.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) data = st.st_size;  // nothing but a hole up to the end
    if (data < 0) return errno_error(errno, "os.file", "cannot seek in " + path);
    while (at < data) {
      const auto n = std::min<std::size_t>(kChunk, static_cast<std::size_t>(data - at));
      sha.update(ByteView(zeros).first(n));
      at += static_cast<off_t>(n);
    }
    if (at >= st.st_size) break;
    off_t hole = ::lseek(fd.get(), at, SEEK_HOLE);
    if (hole < 0) return errno_error(errno, "os.file", "cannot seek in " + path);
    while (at < hole) {
      const auto want = std::min<std::size_t>(kChunk, static_cast<std::size_t>(hole - at));
      const ssize_t n = ::pread(fd.get(), buffer.data(), want, at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_error(errno, "os.file", "cannot read " + path);
      if (n == 0)
        return make_error(Code::kAborted, "template.file_changed",
                          path + " became shorter while it was read");
      sha.update(ByteView(buffer).first(static_cast<std::size_t>(n)));
      at += n;
    }
  }
  return sha.hex();
}

}  // namespace space::node::tmpl
