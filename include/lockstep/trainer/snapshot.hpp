// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

/// The state of a run between two steps. Any ranks can resume from it as if they had run the steps before.
struct Snapshot {
  /// The value of an option of the run, for instance {"batch", "128"}.
  struct Setting {
    std::string name;
    std::string value;
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  /// Options that must be equal to resume: model, precision, tensors, data, batch and seed.
  std::vector<Setting> settings;
  /// Measured kernel choices of the run; empty: the compute library's rule. A run that resumes uses the same choices.
  std::string kernel_choices;
  RunState run;
  std::vector<std::byte> weights;                       ///< all parameters
  std::vector<std::vector<std::byte>> optimizer_state;  ///< the optimizer's state buffers
  std::vector<std::byte> averages;                      ///< EMA weights, if any
  /// The running statistics of each shard or, without shards, of each rank, one after the other. Statistics that batch
  /// norm keeps equal on all ranks are here once.
  std::vector<std::byte> state;
  /// For each part of `state`, the samples that it has seen since the parts were averaged last.
  std::vector<std::int64_t> samples_seen;
};

}  // namespace lockstep::trainer
