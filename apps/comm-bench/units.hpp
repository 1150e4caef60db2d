// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::comm_bench {

/// "300ns", "2us", "1.5ms", "1s" → seconds. @throws UsageError naming the text unless it is positive and has a unit
double parse_duration(std::string_view text);

/// "400Gbit", "12.5GB", "100Mbit/s" → bytes per second. Bits or bytes (B) per second, with K, M, G or T for powers of
/// 1000, as networks are sold. @throws UsageError naming the text unless it is positive and has a unit
double parse_bandwidth(std::string_view text);

}  // namespace lockstep::comm_bench
