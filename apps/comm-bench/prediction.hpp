// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/sizes.hpp"
#include "apps/common/command_line.hpp"
#include "collectives/choice/selection.hpp"

namespace lockstep::comm_bench {

/// A question about the choices of `auto` on a cluster that need not exist.
struct PredictionQuestion {
  collectives::Selection selection;  ///< the cluster and its prices
  std::vector<Bytes> sizes;
  std::optional<double> compute_seconds;  ///< time of one step on one rank
  double overlap = 0;                     ///< the fraction of `compute_seconds` that can overlap with communication
};

/// Returns compute / (compute + exposed), where `exposed` is the communication that exceeds `overlap · compute`.
double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds);

/// For one size, lists all candidates of `auto`; for several sizes, lists the choice at each. The efficiency is
/// included if the compute time is known.
std::string prediction_text(const PredictionQuestion& question);

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
