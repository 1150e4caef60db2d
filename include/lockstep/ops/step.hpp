// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/ops/operators.hpp"

#if defined(__CUDACC__)
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif

/// The scalars of a training step. They are in the memory of the device that runs the step, so that no item of a step
/// waits for the host. The functions that compute them are compiled for every device and give the same bits.
namespace lockstep::ops {

/// Loss scaling. The loss is multiplied by a scale so that small gradients survive in half precision, and updates
/// divide by it. A step with non-finite gradients is skipped and halves the scale; after `interval` steps without one
/// the scale is doubled.
/// @source Micikevicius et al.: Mixed precision training, ICLR 2018, section 3.2
struct LossScaleOptions {
  double initial = 0;  ///< 0: no loss scaling; non-finite gradients then end the run
  std::int64_t interval = 2000;
};

/// Options of a training step. They must be the same on all ranks, except `lanes`.
struct StepOptions {
  /// Number of shards of about equal size into which the global batch is cut. Gradients are added in the canonical
  /// order over the shards, so that the bits do not depend on the assignment of shards to ranks. With 0 each rank's
  /// samples are one part, and the parts are added in any order.
  int shards = 0;
  /// Number of threads of a rank that compute shards concurrently, each with operators of its own; the compute library
  /// then has one thread.
  int lanes = 1;
  /// Number of micro-batches of about equal size into which a rank's samples, or each of its shards, are cut. They run
  /// one after the other, so that only the activations of one are held. Gradients accumulate and are reduced after the
  /// last one.
  int accumulate = 1;
  double clip_norm = 0;  ///< clips gradients to this global L2 norm over all updated parameters; 0: no clipping
  double ema = 0;        ///< decay of the EMA weights, which evaluations use; 0: no EMA
  LossScaleOptions loss_scale;
  /// Update u, counted from 1, averages with a decay of ema·(1 − e^(−u ÷ ema_ramp)), so that the first weights are soon
  /// forgotten; 0: always with `ema`.
  double ema_ramp = 0;
  bool ema_statistics = false;  ///< whether there is an EMA of the running statistics, too
  /// Whether gradients are added up over several steps: `StepScalars::begins_sum` and `updates` say which.
  bool sum_steps = false;
  /// Multiplies the gradients by the number of samples of the global batch, so that they are those of a sum over
  /// samples. The reported loss stays the mean.
  bool times_samples = false;
};

/// The key of random numbers: everything they depend on beside the operator.
struct RngKey {
  std::uint64_t seed = 0;         ///< seed of the run
  std::int64_t step = 0;          ///< step of the run
  std::int64_t first_sample = 0;  ///< position of the call's first sample in the global batch
};

/// Scalars that the host sets before a step.
struct StepScalars {
  double learning_rate = 0;
  double samples = 0;   ///< size of the global batch
  RngKey rng_key = {};  ///< key of this rank's samples; all fields but `first_sample` are the same on all ranks
  double request = 0;   ///< 1 if this rank has a request, for instance to stop
  double bias_learning_rate = 0;  ///< of biases, with `nn::OptimizerOptions::bias_rate`
  double momentum = -1;           ///< of this step, for sgd and lars; negative: that of the optimizer
  double begins_sum = 1;  ///< with `StepOptions::sum_steps`: not 0 if the sum of gradients begins with this step
  double updates = 1;     ///< with `StepOptions::sum_steps`: not 0 if the weights are updated with the sum
};

/// Scalars that a step hands to the next one, the same on all ranks.
struct StepState {
  double loss_scale = 1;          ///< factor of the gradients until the update, against underflow
  std::int64_t scaled_steps = 0;  ///< steps since the loss scale changed
  std::int64_t updates = 0;       ///< updates made
  /// Not 0 after a step that met a bad value, or whose loss or gradients were not finite although no smaller loss scale
  /// could help. No later step changes weights until the host sets the state.
  std::int64_t halted = 0;
};

/// The fault of a value of the data.
enum class FaultCode : std::int32_t {
  none,
  label,    ///< it is no class; the limit is the number of classes
  target,   ///< of a sequence: it is no class, or the blank; the limit is the number of classes
  targets,  ///< the number of targets of a sequence is not in 0 … limit
  steps,    ///< the number of steps of a sequence is not in 0 … limit
  token,    ///< it is no entry of an embedding; the limit is the number of entries
};

/// A bad value of the data that a kernel has read. Kernels do not throw for data: they report the first bad value and
/// compute as if the sample did not count.
struct Fault {
  FaultCode code = FaultCode::none;
  std::int32_t node = -1;   ///< index of the operator's node in the graph of the step
  std::int64_t sample = 0;  ///< counted from the first sample of the call
  std::int64_t value = 0;
  std::int64_t limit = 0;
};

/// Results of a step, the same on all ranks.
struct StepResult {
  double loss = 0;               ///< Σ coefficient · loss ÷ normalizer
  double correct = 0;            ///< weight of the correct predictions of the first loss term
  bool finite = true;            ///< whether gradients and loss are finite; otherwise there was no update
  bool finite_gradients = true;  ///< whether the gradients are
  double gradient_norm = 0;      ///< before clipping; computed only with clipping
  double requests = 0;           ///< number of ranks that have a request
  double faults = 0;             ///< number of leaves on all ranks that met a bad value; if any, there was no update
  StepState state;               ///< for the next step
};

/// Scalars that an update reads when it runs. They are in memory, so that the same call can be repeated with other
/// values.
struct UpdateScalars {
  double learning_rate = 0;
  double gradient_scale = 1;      ///< factor of the gradients
  double first_correction = 1;    ///< 1 − momentum^t for update t, counted from 1; for adamw and lamb
  double second_correction = 1;   ///< 1 − beta2^t
  bool go = true;                 ///< false: nothing is changed
  double bias_learning_rate = 0;  ///< the learning rate of updates with `UpdateStep::is_bias`
  double momentum = -1;           ///< of sgd and lars; negative: `UpdateStep::momentum`
};

/// The rule by which an optimizer changes the weights. With the weights w, the gradient g = gradient·gradient_scale,
/// the buffers m
/// (`UpdateStep::first`) and v (`UpdateStep::second`), and the norms ‖·‖ of the whole tensor:
///
///   sgd    g += weight_decay·w;  m = momentum·m + g;  w −= rate·(nesterov ? g + momentum·m : m)
///   adamw  m = momentum·m + (1 − momentum)·g;  v = beta2·v + (1 − beta2)·g²;  m̂ = m ÷ first_correction;
///          v̂ = v ÷ second_correction;  w −= rate·(m̂ ÷ (√v̂ + epsilon) + weight_decay·w)
///   lars   trust = trust_coefficient·‖w‖ ÷ (‖g‖ + weight_decay·‖w‖);
///          m = momentum·m + rate·trust·(g + weight_decay·w);  w −= m
///   lamb   m and v as adamw;  u = m̂ ÷ (√v̂ + epsilon) + weight_decay·w;  w −= rate·‖w‖ ÷ ‖u‖·u
///
/// The trust ratio is 1 where one of its norms is 0.
/// @source Sutskever, Martens, Dahl, Hinton, ICML 2013 (sgd, in PyTorch's form: m does not contain the rate);
///         Loshchilov & Hutter, ICLR 2019 (adamw); You, Gitman, Ginsburg, arXiv:1708.03888 (lars);
///         You et al., ICLR 2020 (lamb)
enum class UpdateRule { sgd, adamw, lars, lamb };

/// An update of a flat slice of weights and optimizer state, in place.
struct UpdateStep {
  UpdateRule rule = UpdateRule::sgd;
  void* parameters = nullptr;
  const void* gradients = nullptr;
  void* first = nullptr;   ///< momentum buffer, or first moment
  void* second = nullptr;  ///< second moment, for adamw and lamb
  Count count;
  DType dtype = DType::float32;
  double momentum = 0;
  bool nesterov = false;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  double trust_coefficient = 0;
  bool is_bias = false;  ///< whether the update takes `UpdateScalars::bias_learning_rate`
  /// Two sums over the tensor that the slice belongs to, which `Ops::measure_update` adds to: the squares of the
  /// weights, and of the unscaled gradients (lars) or of u (lamb). Null: the trust ratio is 1.
  double* squares = nullptr;
  const UpdateScalars* scalars = nullptr;  ///< not null when the update runs
  Queue queue = Queue::host();             ///< what the update is submitted to
};

/// Scalars that an average reads when it runs.
struct AverageScalars {
  double keep = 0;
  double take = 1;
  bool go = true;  ///< false: nothing is changed
};

/// A weighted sum over flat slices: averages = keep · averages + take · values. A factor of 0 gives zeros, whatever the
/// numbers are. EMA weights and sums of gradients over several steps are made so.
struct AverageStep {
  void* averages = nullptr;
  const void* values = nullptr;
  Count count;
  DType dtype = DType::float32;
  const AverageScalars* scalars = nullptr;  ///< not null when it runs
  Queue queue = Queue::host();
};

/// The weighting of a loss term in the objective.
struct LossWeighting {
  double coefficient = 1;
  bool by_weight = false;  ///< whether its sum is divided by the weight of its targets; else by the samples
};

/// The scalars of a step as addresses in one device's memory. A leaf is a micro-batch of a shard; leaves are in the
/// order of shards, then micro-batches.
struct StepBlock {
  StepOptions options;
  int terms = 0;  ///< number of loss terms
  int first_shard = 0;
  int own_shards = 1;
  int parameters = 0;
  double momentum = 0;  ///< of the optimizer, for its corrections
  double beta2 = 0;

  const LossWeighting* weightings = nullptr;  ///< by term
  StepScalars* scalars = nullptr;
  StepState* state = nullptr;
  std::int64_t* first_samples = nullptr;  ///< by leaf: its first sample, counted from the rank's first
  StepResult* result = nullptr;
  UpdateScalars* update = nullptr;
  AverageScalars* ema = nullptr;    ///< of the EMA weights; skipped with the update
  AverageScalars* sum = nullptr;    ///< of the sum of gradients over several steps
  RngKey* rng_keys = nullptr;       ///< by leaf
  LossSums* own = nullptr;          ///< by leaf and term
  LossSums* rank = nullptr;         ///< by term: summed over this rank's leaves
  double* shard_weights = nullptr;  ///< by shard and term; summed over ranks
  double* weights = nullptr;        ///< by term: the weight of the global batch
  double* factors = nullptr;        ///< by term: the factor of its gradients
  double* not_finite = nullptr;     ///< by parameter: not 0 if this rank's gradient is not finite
  Fault* faults = nullptr;          ///< by leaf
  /// Numbers that are summed over ranks beside the gradients: for each shard and term its loss sums, then how many
  /// gradients are not finite, how many ranks have a request, and how many leaves met a bad value.
  double* sums = nullptr;
  /// Numbers about the reduced gradients: the sum of their squares, for clipping; then, by parameter, not 0 if the
  /// gradient is not finite. They are summed over ranks if each rank has other parts.
  double* found = nullptr;
  double* trust_norms = nullptr;  ///< two for each parameter: `UpdateStep::squares`

  /// The number of shards over all ranks; 1 without shards.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE int shards() const { return options.shards > 0 ? options.shards : 1; }
  /// The number of leaves of this rank.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE int leaves() const { return own_shards * options.accumulate; }
  /// The number of elements of `sums`, and of `found`.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE int sums_count() const { return 3 * shards() * terms + 3; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE int found_count() const { return 1 + parameters; }
};

/// The computations between the items of a step that run operators and exchange numbers.
enum class StepStage {
  begin,        ///< clears `faults` and `own`
  sum_weights,  ///< from `own` to `shard_weights`, before these are summed over ranks
  set_factors,  ///< sets `weights`, `factors` and `rng_keys`, and zeroes `not_finite`
  collect,      ///< from `own` and `not_finite` to `rank` and `sums`, before these are summed; zeroes `found`
  /// Decides whether the update is made, from `sums` and `found`, and sets `result`, `update` and `state`: the loss,
  /// the factor that clips the gradients, and the loss scale for the next step.
  gate,
};

/// A loss term without weight contributes zero; this avoids 0/0.
LOCKSTEP_HOST_DEVICE inline double divided(double sum, double by) { return by == 0 ? 0 : sum / by; }

/// Returns Σ coefficient · loss ÷ normalizer.
LOCKSTEP_HOST_DEVICE inline double objective(const LossWeighting* weightings, int terms, const LossSums* loss_sums,
                                             double samples) {
  double loss = 0;
  for (int term = 0; term < terms; ++term) {
    const LossWeighting& of = weightings[term];
    loss += of.coefficient * divided(loss_sums[term].loss, of.by_weight ? loss_sums[term].weight : samples);
  }
  return loss;
}

/// Reports a bad value, unless one has been reported. @param fault  may be null
LOCKSTEP_HOST_DEVICE inline void report(Fault* fault, const Fault& found) {
  if (fault != nullptr && fault->code == FaultCode::none) *fault = found;
}

}  // namespace lockstep::ops
