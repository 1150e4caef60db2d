// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::comm_bench {

/// Parses "300ns", "2us", "1.5ms" or "1s" to seconds. @throws UsageError naming the text unless it is positive and has
/// a unit
double parse_duration(std::string_view text);

/// Parses "400Gbit", "12.5GB" or "100Mbit/s" to bytes per second. The unit is bits or bytes (B) per second; K, M, G and
/// T are powers of 1000, as usual for networks. @throws UsageError naming the text unless it is positive and has a unit
double parse_bandwidth(std::string_view text);

}  // namespace lockstep::comm_bench
