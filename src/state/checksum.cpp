// SPDX-License-Identifier: Apache-2.0
#include "state/checksum.hpp"

#include <zlib.h>

#include <array>
#include <cstdio>

namespace lockstep::state {

Checksum checksum_of(std::span<const std::byte> bytes) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return {static_cast<std::uint32_t>(crc), {static_cast<std::int64_t>(bytes.size())}};
}

Checksum joined(const Checksum& first, const Checksum& second) {
  const auto crc = crc32_combine(first.crc, second.crc, second.bytes.value);
  return {static_cast<std::uint32_t>(crc), {first.bytes.value + second.bytes.value}};
}

std::string hexadecimal(std::uint32_t crc) {
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", crc);
  return digits.data();
}

}  // namespace lockstep::state
