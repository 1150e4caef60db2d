// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep::comm_bench {

/// "4", "64K", "256M", "2G": suffixes are powers of 1024, in either case.
/// @throws UsageError
Bytes parse_size(std::string_view text);

/// "4 B", "64 KiB", "256 MiB", "1.5 GiB": to three digits, in the largest unit that is no larger.
std::string size_text(Bytes size);

/// Sizes to measure: the first, the last, and the factor between neighbors.
struct SizeRange {
  Bytes min{4};
  Bytes max{64 << 20};
  int factor = 4;
};

/// min, min·factor, … up to `max`, each in elements per part: rounded down to what `parts` equal parts of whole
/// elements can hold, but at least one element each. A size that is thereby the same as the one before is left out.
std::vector<Count> part_counts(const SizeRange& range, std::int64_t element_bytes, int parts);

}  // namespace lockstep::comm_bench
