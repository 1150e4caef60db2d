// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/trainer/workload.hpp"
#include "vision/source/source.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// Returns the number of insertions, deletions and replacements that turn one text into the other.
std::int64_t edit_distance(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

/// Makes "loss", "accuracy", the part of the texts that are read without a mistake, and "ned", 1 − the mean over texts
/// of the edit distance ÷ the length of the longer of what is written and what is read. Spaces do not count. All sums
/// are of whole numbers, so that the values are the same on any number of ranks.
/// @param source  of the samples that are evaluated
/// @throws Error{invalid_argument} if the model reads no texts (`TextReader`)
/// @source PaddleOCR's RecMetric with ignore_space, whose results are by a factor of n ÷ (n + 0.00001) smaller
trainer::Workload::Metrics text_metrics(const FoundModel& model, std::shared_ptr<const vision::Source> source);

}  // namespace lockstep::workloads
