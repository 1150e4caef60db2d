// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "apps/comm-bench/prediction.hpp"
#include "apps/comm-bench/sizes.hpp"
#include "apps/common/command_line.hpp"

namespace lockstep::comm_bench {

/// Returns --predict and the options that belong to it.
OptionGroup prediction_options();

/// Parses --predict; returns nothing without it.
/// @param untuned        the segment and the blocks in flight for auto
/// @param range          the sizes if --bytes is not given
/// @param element_bytes  sizes are rounded to whole elements
/// @throws UsageError for an option that is missing, invalid, or given without --predict
std::optional<PredictionQuestion> parse_prediction(const OptionValues& flags, const collectives::Choice& untuned,
                                                   const SizeRange& range, std::int64_t element_bytes);

}  // namespace lockstep::comm_bench
