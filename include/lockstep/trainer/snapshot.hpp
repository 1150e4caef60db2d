// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  std::int64_t epoch = 1;           ///< from 1
  std::int64_t step = 0;            ///< steps done in this epoch
  std::int64_t steps = 0;           ///< steps done in total
  double loss_scale = 0;            ///< 0: none
  std::int64_t scaled_steps = 0;    ///< steps since the loss scale changed
  std::vector<std::byte> weights;   ///< all parameters
  std::vector<std::byte> velocity;  ///< momentum buffers
  std::vector<std::byte> averages;  ///< EMA weights, if any
  std::vector<std::byte> state;     ///< running statistics, as evaluation would use them
};

}  // namespace lockstep::trainer
