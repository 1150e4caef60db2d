// SPDX-License-Identifier: Apache-2.0
// The names of the enumerators.
#include <array>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// Returns the name of an enumerator; "unknown" for a number that is none.
/// @param names  in the order of the enumeration, whose last enumerator is `last`
template <auto last, std::size_t count>
std::string_view name_in(const std::array<std::string_view, count>& names, decltype(last) value) {
  static_assert(count == static_cast<std::size_t>(last) + 1, "every enumerator has a name");
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

}  // namespace

std::string_view name(DType dtype) {
  static constexpr auto names =
      std::to_array<std::string_view>({"float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16", "int8",
                                       "int16", "uint16", "bool", "complex64", "complex128"});
  return name_in<DType::complex128>(names, dtype);
}

std::string_view name(ReduceOp op) {
  static constexpr auto names =
      std::to_array<std::string_view>({"sum", "min", "max", "product", "average", "logical_and", "logical_or",
                                       "logical_xor", "bit_and", "bit_or", "bit_xor"});
  return name_in<ReduceOp::bit_xor>(names, op);
}

std::string_view name(MemoryKind kind) {
  static constexpr auto names = std::to_array<std::string_view>({"host", "shared", "pinned", "device"});
  return name_in<MemoryKind::device>(names, kind);
}

std::string_view name(CollectiveKind kind) {
  static constexpr auto names = std::to_array<std::string_view>(
      {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all", "barrier", "send", "recv",
       "gather", "scatter", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "scan", "exclusive_scan"});
  return name_in<CollectiveKind::exclusive_scan>(names, kind);
}

std::string_view name(ErrorCode code) {
  static constexpr auto names =
      std::to_array<std::string_view>({"invalid argument", "unsupported", "transport", "timeout", "mismatch", "device",
                                       "out of memory", "io", "corrupt", "diverged"});
  return name_in<ErrorCode::diverged>(names, code);
}

}  // namespace lockstep
