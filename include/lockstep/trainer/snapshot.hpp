// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::trainer {

/// Where a run stands between two steps: with it, ranks that were not there before can go on as if they had been.
struct Snapshot {
  /// What a value of the run was, e.g. {"batch", "128"}.
  struct Setting {
    std::string name;
    std::string value;
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  /// What has to be the same where the run goes on: model, precision, tensors, data, batch and seed.
  std::vector<Setting> settings;
  /// By which algorithms operators were computed, where that had been measured; empty: by the back end's rule. Who goes
  /// on computes by the same, whatever has been measured there.
  std::string kernel_choices;
  std::int64_t epoch = 1;           ///< from 1
  std::int64_t step = 0;            ///< steps done in this epoch
  std::int64_t steps = 0;           ///< done in all
  double loss_scale = 0;            ///< 0: none
  std::int64_t scaled_steps = 0;    ///< since it has changed
  std::vector<std::byte> weights;   ///< all parameters
  std::vector<std::byte> velocity;  ///< the optimizer's state
  std::vector<std::byte> averages;  ///< of the weights, where they are averaged
  std::vector<std::byte> state;     ///< running statistics, as evaluation would use them
};

}  // namespace lockstep::trainer
