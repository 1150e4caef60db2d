// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/types.hpp"

/// What reading and writing a header have in common.
namespace lockstep::state {

/// The format's names of lockstep's dtypes, in the order in which a new file has tensors of these: from large elements
/// to small ones, which aligns all of them, and among equally large ones as the reference implementation has them.
struct SafetensorsDType {
  std::string_view name;
  DType dtype;
};
inline constexpr std::array<SafetensorsDType, 7> safetensors_dtypes = {{{"I64", DType::int64},
                                                                        {"F64", DType::float64},
                                                                        {"F32", DType::float32},
                                                                        {"I32", DType::int32},
                                                                        {"BF16", DType::bfloat16},
                                                                        {"F16", DType::float16},
                                                                        {"U8", DType::uint8}}};
inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr Bytes most_header_bytes = {100'000'000};
inline constexpr std::int64_t length_bytes = 8;  // in front of the header

/// Returns whether a tensor can be this large: false if there are negative extents or more than 2⁶³ − 1 bytes
bool size_is_valid(const std::vector<std::int64_t>& extents, DType dtype);

}  // namespace lockstep::state
