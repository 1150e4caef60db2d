// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::backends {

/// The format of float32 values on the wire.
enum class WireFormat { bfloat16, float16 };
std::string_view name(WireFormat format);  ///< "bf16", "fp16"

/// All choices: "none" and the names of the formats.
std::span<const std::string_view> compression_names();
/// @return nothing for "none"
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
std::optional<WireFormat> parse_compression(std::string_view name);

/// Wraps `inner` so that all_reduce, reduce and reduce_scatter of float32 send half the bytes: inputs are rounded to
/// `format` at submission, `inner` reduces in that format, and results are widened at completion. All ranks have the
/// same bits if `inner` guarantees it. All other operations pass unchanged, because values such as weights must arrive
/// exactly, whereas a sum of gradients is an estimate anyway.
///
/// Each input and each partial sum that `inner` sends is rounded: with p ranks the error is at most about p·u·Σ|x|,
/// u = 2⁻⁸ (bfloat16) or 2⁻¹¹ (float16). The sums of float16 overflow beyond 65,504. The order of the partial sums, and
/// so the bits, depend on the number of ranks even if those of `inner` alone do not.
///
/// The copies are in memory of `inner`; an operation of a known size does not allocate.
/// @param progress  the progress of `inner`
/// @throws Error{unsupported} if `inner` does not take buffers in host memory
std::unique_ptr<Communicator> make_compressed(std::unique_ptr<Communicator> inner, WireFormat format,
                                              Progress& progress);

}  // namespace lockstep::backends
