// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/measure.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"

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

/// Returns bus bandwidth ÷ algorithm bandwidth: the bytes that the best algorithm sends over a link for each byte of
/// the buffer. So the bus bandwidth can be compared with that of the hardware, whatever the operation and the number of
/// ranks.
/// @source NVIDIA nccl-tests, doc/PERFORMANCE.md
double bus_factor(CollectiveKind kind, int ranks);

/// The properties that all measurements of a run share.
struct Subject {
  CollectiveKind op = CollectiveKind::all_reduce;
  DType dtype = DType::float32;
  int ranks = 1;
  std::string_view device = "cpu";  ///< where the buffers are
};

/// Returns the table's head, in the style of nccl-tests. Lines fit into 80 columns, unless results are wrong.
/// @param program  name and version of the program that measured
std::string table_head(const Subject& subject, const std::string& program, int nodes);
/// Returns a line of the table.
std::string table_line(const Subject& subject, const Measurement& m);
/// The comparison of "auto" with the best of lockstep's single algorithms, at the size where it did worst.
struct AutoComparison {
  double worst_ratio = 0;  ///< ratio of the medians
  Bytes bytes;             ///< the size of this ratio
  std::string best;        ///< the best single algorithm
};
/// Returns nothing if both were measured at no common size.
std::optional<AutoComparison> compare_auto(std::span<const Measurement> measurements);
/// Returns the table's last line, such as "# auto vs best single algorithm: 1.03× slower at worst (64 MiB)".
std::string summary_line(const AutoComparison& comparison);
/// Returns the table's last line if any result is wrong; otherwise nothing.
std::optional<std::string> complaint(std::span<const Measurement> measurements);
/// Returns
/// {"results":[{"op","algorithm","device","bytes","ranks","dtype","median_us","min_us","algbw_gbps","busbw_gbps","correct"}]},
/// with "auto":{"worst_ratio","bytes","best"} beside the results if there is a comparison.
std::string to_json(const Subject& subject, std::span<const Measurement> measurements);

}  // namespace lockstep::comm_bench
