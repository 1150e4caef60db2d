// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "apps/comm-bench/prediction.hpp"
#include "apps/comm-bench/sizes.hpp"
#include "apps/common/command_line.hpp"

namespace lockstep::comm_bench {

/// --predict and what belongs to it.
OptionGroup prediction_options();

/// What --predict asks for; nothing without it.
/// @param untuned        the segment and the blocks in flight that auto would have
/// @param range          the sizes, where there is no --bytes
/// @param element_bytes  sizes are whole elements
/// @throws UsageError for a flag that is missing, wrong, or given without --predict
std::optional<PredictionQuestion> parse_prediction(const OptionValues& flags, const collectives::Choice& untuned,
                                                   const SizeRange& range, std::int64_t element_bytes);

}  // namespace lockstep::comm_bench
