// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/trainer/trainer.hpp"

// What several sources of the trainer need.
namespace lockstep::trainer {

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// @throws Error{invalid_argument} with this message if the condition does not hold; it is the same on all ranks
void require(bool holds, const std::string& message, const ProcessGroup& group);

/// Returns the index of a metric, or their number if there is none of this name.
inline std::size_t index_of(const std::vector<observe::MetricValue>& metrics, const std::string& name) {
  const auto has_name = [&](const observe::MetricValue& metric) { return metric.name == name; };
  return static_cast<std::size_t>(std::find_if(metrics.begin(), metrics.end(), has_name) - metrics.begin());
}

/// Returns the parts of a test batch that this rank predicts by themselves, as ranges of the global batch: its shards,
/// if there are any, because how a kernel rounds a sample may depend on how many others it computes with it.
std::vector<Share> predicted_parts(std::int64_t step_samples, const ProcessGroup& group, const LeafShares& shards);

/// Prepares the replica for all numbers of samples that this rank gets in a step.
void prepare_shares(Replica& replica, const data::DistributedSampler& sampler);

}  // namespace lockstep::trainer
