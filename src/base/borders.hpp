// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of numbers that come from outside, before they are multiplied or select something.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/collective_kind.hpp"

namespace lockstep {

/// Returns a·b; nothing if it does not fit.
constexpr std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Returns whether whole = part·parts, without overflow.
constexpr bool is_product(std::int64_t whole, std::int64_t part, std::int64_t parts) {
  std::int64_t result = 0;
  return !__builtin_mul_overflow(part, parts, &result) && result == whole;
}

/// The bytes of the elements, or the largest number if they are more.
constexpr Bytes bytes_at_most(Count count, DType dtype) {
  return {product(count.value, size_of(dtype)).value_or(std::numeric_limits<std::int64_t>::max())};
}

// Whether a value is one of the enumerators, and no other number that was cast to the type.
constexpr bool is_valid(DType dtype) { return size_of(dtype) != 0; }
constexpr bool is_valid(ReduceOp op) { return op >= ReduceOp::sum && op <= ReduceOp::bit_xor; }
constexpr bool is_valid(MemoryKind kind) {
  return static_cast<unsigned>(kind) <= static_cast<unsigned>(MemoryKind::device);
}
constexpr bool is_valid(CollectiveKind kind) { return kind <= CollectiveKind::exclusive_scan; }
/// Returns the message about a value that is none.
template <typename Enumeration>
std::string no_enumerator(const std::string& type, Enumeration value) {
  return "the " + type + " is the number " + std::to_string(static_cast<int>(value)) +
         ", which is none of its enumerators";
}

}  // namespace lockstep
