// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/types.hpp"

namespace lockstep::state {

/// The CRC-32 of consecutive bytes, and their number. It finds damage, not malice. Checksums of parts that different
/// ranks have written are joined without reading the bytes again.
struct Checksum {
  std::uint32_t crc = 0;
  Bytes bytes;
  friend bool operator==(const Checksum&, const Checksum&) = default;
};

Checksum checksum_of(std::span<const std::byte> bytes);
/// Returns the checksum of the bytes of `first` and then those of `second`. @cost  logarithmic in the bytes of `second`
Checksum joined(const Checksum& first, const Checksum& second);
/// Returns the CRC-32 as 8 hexadecimal digits.
std::string hexadecimal(std::uint32_t crc);

}  // namespace lockstep::state
