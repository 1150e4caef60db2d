// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/checksum.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <memory>

#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::train {
namespace {

void require_success(int result) {
  if (result != 1) throw Error(ErrorCode::unsupported, "OpenSSL computes no SHA-256 here");
}

}  // namespace

std::string sha256(const Layout& layout, const Buffer& flat) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  require_success(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr));
  for (const TensorSlot& slot : layout.tensors()) {
    const Buffer tensor = slice(flat, slot.offset, slot.count);
    require_success(EVP_DigestUpdate(digest.get(), tensor.data, static_cast<std::size_t>(tensor.bytes().value)));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  require_success(EVP_DigestFinal_ex(digest.get(), bytes.data(), &length));
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += format_text("%02x", bytes[i]);
  return text;
}

}  // namespace lockstep::train
