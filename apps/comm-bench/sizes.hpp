// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep::comm_bench {

/// Parses "4", "64K", "256M" or "2G". Suffixes are powers of 1024, in upper or lower case.
/// @throws UsageError
Bytes parse_size(std::string_view text);

/// Formats a size as "4 B", "64 KiB", "256 MiB" or "1.5 GiB": with three digits, in the largest unit that is not
/// larger.
std::string size_text(Bytes size);

/// The sizes to measure: the first, the last, and the factor between neighbors.
struct SizeRange {
  Bytes min{4};
  Bytes max{64 << 20};
  int factor = 4;
};

/// Returns min, min·factor, … up to `max`, each as elements per part, rounded down to `parts` equal parts of whole
/// elements, but at least one element each. A size that becomes equal to the one before is left out.
std::vector<Count> part_counts(const SizeRange& range, std::int64_t element_bytes, int parts);

}  // namespace lockstep::comm_bench
