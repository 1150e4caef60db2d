// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/measure.hpp"

namespace lockstep::comm_bench {

/// What all measurements of a run have in common.
struct Subject {
  CollectiveKind op = CollectiveKind::all_reduce;
  DType dtype = DType::float32;
  int ranks = 1;
  std::string_view device = "cpu";  ///< in whose memory the buffers lie
};

/// The table's head, in the manner of nccl-tests; lines are made for 80 columns, and have more where results are wrong.
/// @param program  who measured: a name and a version
std::string table_head(const Subject& subject, const std::string& program, int nodes);
/// A line of the table.
std::string table_line(const Subject& subject, const Measurement& m);
/// How "auto" did beside the best of lockstep's single algorithms, where it did worst.
struct AutoComparison {
  double worst_ratio = 0;  ///< of the medians
  Bytes bytes;             ///< the size that is about
  std::string best;        ///< the single algorithm
};
/// Nothing where there is no size at which both were measured.
std::optional<AutoComparison> compare_auto(std::span<const Measurement> measurements);
/// "# auto vs best single algorithm: 1.03× slower at worst (64 MiB)", the table's last line.
std::string summary_line(const AutoComparison& comparison);
/// The table's last line if any result is wrong; else nothing.
std::optional<std::string> complaint(std::span<const Measurement> measurements);
/// {"results":[{"op","algorithm","device","bytes","ranks","dtype","median_us","min_us","algbw_gbps","busbw_gbps","correct"}]},
/// and "auto":{"worst_ratio","bytes","best"} beside the results where there is a comparison.
std::string to_json(const Subject& subject, std::span<const Measurement> measurements);

}  // namespace lockstep::comm_bench
