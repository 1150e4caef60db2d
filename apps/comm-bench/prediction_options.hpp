// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/program_options.hpp>
#include <optional>

#include "apps/comm-bench/prediction.hpp"
#include "apps/comm-bench/sizes.hpp"

namespace lockstep::comm_bench {

/// --predict and what belongs to it.
boost::program_options::options_description prediction_flags();

/// What --predict asks for; nothing without it.
/// @param untuned        the segment and the blocks in flight that auto would have
/// @param range          the sizes, where there is no --bytes
/// @param element_bytes  sizes are whole elements
/// @throws UsageError for a flag that is missing, wrong, or given without --predict
std::optional<PredictionQuestion> parse_prediction(const boost::program_options::variables_map& flags,
                                                   const collectives::Choice& untuned, const SizeRange& range,
                                                   std::int64_t element_bytes);

}  // namespace lockstep::comm_bench
