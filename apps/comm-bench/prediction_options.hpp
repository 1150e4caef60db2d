// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

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

/// Parses "300ns", "2us", "1.5ms" or "1s" to seconds. @throws UsageError naming the text unless it is positive and has
/// a unit
double parse_duration(std::string_view text);

/// Parses "400Gbit", "12.5GB" or "100Mbit/s" to bytes per second. The unit is bits or bytes (B) per second; K, M, G and
/// T are powers of 1000, as usual for networks. @throws UsageError naming the text unless it is positive and has a unit
double parse_bandwidth(std::string_view text);

}  // namespace lockstep::comm_bench
