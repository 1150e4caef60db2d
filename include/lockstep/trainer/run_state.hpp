// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// `RunState::stopped_by` of a run that ended because its time was over (`Trainer::stop_at`).
inline constexpr int stopped_by_time = 1 << 16;

/// The state of a run between two steps, apart from its tensors and options. It is equal on all ranks. A run that
/// resumes with it reports the same results as an undisturbed run.
struct RunState {
  std::int64_t epoch = 1;  ///< current epoch, from 1
  std::int64_t step = 0;   ///< steps done in this epoch
  /// Whether the end of this epoch, or of the run, has been evaluated and reported after the last step.
  bool is_reported = false;
  std::int64_t global_step = 0;    ///< steps done in the run
  std::int64_t skipped = 0;        ///< steps without an update, because gradients were not finite with this loss scale
  std::int64_t deferred = 0;       ///< steps without an update, because their gradients are part of a later one
  std::int64_t pending_steps = 0;  ///< steps since the last one that updated the weights, or was to
  double loss_scale = 0;           ///< 0: none
  std::int64_t scaled_steps = 0;   ///< steps since the loss scale changed
  double last_loss = 0;            ///< mean loss of the last step over the samples of all ranks
  double epoch_loss_sum = 0;       ///< sum of the losses of this epoch's samples
  std::int64_t epoch_samples = 0;
  std::vector<observe::MetricValue> evaluation;  ///< the last one; without values if there was none
  std::int64_t evaluated_step = 0;               ///< `global_step` of the last one; 0: not known
  std::vector<observe::MetricValue> best;        ///< the best value of each metric
  /// For each metric, the evaluations since the one with its best value.
  std::vector<std::int64_t> evaluations_since_best;
  /// The largest of the ranks' stop requests, or `stopped_by_time`, once they have agreed to stop; 0 before. It belongs
  /// to the process that runs, so a run that resumes begins with 0.
  int stopped_by = 0;
};

/// The running statistics of all shards of all ranks, or without shards of each rank; one part if they are equal there.
struct GatheredStatistics {
  std::vector<std::byte> memory;      ///< the parts, one after the other
  std::vector<std::int64_t> samples;  ///< by part, the samples that it has seen since the parts were averaged

  /// A view of all parts in the dtype that they have.
  [[nodiscard]] Buffer as(DType dtype) { return {memory.data(), {std::ssize(memory) / size_of(dtype)}, dtype}; }
};

/// What a rank remembers of a run: its state after the last step, or evaluation, that this rank has completed.
struct RunMemory {
  RunState run;
  std::vector<std::vector<std::byte>> tensors;  ///< parameters, the optimizer's state, EMA weights
  GatheredStatistics statistics;
  int saves_heard = 0;  ///< of the requests of `Trainer::save_on`
};

/// How a file of weights and a model must fit.
enum class WeightsMatch {
  strict,  ///< both have the same tensors with the same extents
  /// As strict, but tensors of the head may be for another number of classes, and stay as they are then. The head is
  /// the layer that computes the model's outputs, such as the last linear layer of a classifier.
  any_head,
  partial,  ///< tensors that both have with the same extents are loaded; there must be one
};

/// What became of the tensors of a file of weights and of the model.
struct LoadedWeights {
  /// A tensor of the file, of the model, or of both.
  struct Tensor {
    std::string name;
    std::optional<std::vector<std::int64_t>> in_file;   ///< its extents there; none: the file lacks it
    std::optional<std::vector<std::int64_t>> in_model;  ///< its extents there; none: the model lacks it
    /// Its dtype in the file where that is none of real numbers, such as "BOOL [2, 3]" or "int64 [4]"; else empty.
    std::string not_real = {};
    /// Returns whether the model has the file's numbers now.
    [[nodiscard]] bool is_loaded() const { return in_model.has_value() && in_file == in_model && not_real.empty(); }
    /// Returns whether neither the model lacks it nor the file has weights in it.
    [[nodiscard]] bool is_needless() const { return !in_model && !not_real.empty(); }
  };
  std::vector<Tensor> tensors;  ///< on rank 0: those of the model in its order, then the others of the file
};

}  // namespace lockstep::trainer
