// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::backends {

/// What a float32 becomes for the way.
enum class WireFormat { bfloat16, float16 };
std::string_view name(WireFormat format);  ///< "bf16", "fp16"

/// What a user can choose: "none" and the formats' names.
std::span<const std::string_view> compression_names();
/// @return nothing for "none"
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
std::optional<WireFormat> parse_compression(std::string_view name);

/// `inner`, but all_reduce, reduce and reduce_scatter of float32 send half the bytes: inputs are rounded to `format`
/// when they are submitted, `inner` reduces in that format, and results are widened when it is done. All ranks have the
/// same bits if they have them of `inner`. Everything else passes unchanged, among it all_gather and broadcast: they
/// hand on values that must arrive as they are (weights), where a sum of gradients is an estimate anyway. A reduce_then
/// does both at once and is refused.
///
/// Each input and each partial sum that `inner` sends on is rounded: at p ranks the error is at most about p·u·Σ|x|,
/// u = 2⁻⁸ (bfloat16) or 2⁻¹¹ (float16). The sums of float16 overflow beyond 65,504. What order the partial sums are
/// made in, and so the bits, depends on the number of ranks even where that of `inner` alone does not.
///
/// The copies lie in memory of `inner`; an operation of a size that there was before allocates none.
/// @param progress  that of `inner`
/// @throws Error{unsupported} if `inner` does not take buffers in host memory
std::unique_ptr<Communicator> make_compressed(std::unique_ptr<Communicator> inner, WireFormat format,
                                              Progress& progress);

}  // namespace lockstep::backends
