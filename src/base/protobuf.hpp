// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// A message in the encoding of Protocol Buffers: fields with their numbers, in any order. Repeated fields are added
/// once for each element.
/// @source protobuf.dev, "Encoding"
class ProtobufMessage {
 public:
  ProtobufMessage& integer(unsigned field, std::int64_t value) {
    return key(field, 0).varint(static_cast<std::uint64_t>(value));
  }
  ProtobufMessage& real(unsigned field, double value) {
    return key(field, 1).little_endian(std::bit_cast<std::uint64_t>(value));
  }
  ProtobufMessage& real(unsigned field, float value) {
    return key(field, 5).little_endian(std::bit_cast<std::uint32_t>(value));
  }
  /// Adds text, or bytes.
  ProtobufMessage& text(unsigned field, std::string_view value) {
    key(field, 2).varint(value.size()).bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(unsigned field, const ProtobufMessage& value) { return text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  ProtobufMessage& key(unsigned field, unsigned wire_type) { return varint(field << 3 | wire_type); }
  ProtobufMessage& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  template <typename Unsigned>
  ProtobufMessage& little_endian(Unsigned number) {
    for (std::size_t i = 0; i < sizeof number; ++i) bytes_ += static_cast<char>(number >> (8 * i) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

}  // namespace lockstep
