// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/learning_rate.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// What the loss is multiplied by, so that small gradients are not lost where numbers have few bits; updates divide by
/// it. A step whose gradients are not finite is skipped, and the scale halved; after `interval` steps without one it is
/// doubled.
/// @source Micikevicius et al.: Mixed precision training, ICLR 2018, section 3.2
struct LossScaleOptions {
  double initial = 0;  ///< 0: none, and a step whose gradients are not finite ends the run
  std::int64_t interval = 2000;
};

/// What a run is, the same on every rank.
struct TrainerOptions {
  /// Of weights, their gradients and the optimizer's state; operators may compute in a lower one (`Ops::values`).
  DType precision = DType::float32;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;             ///< ends the run after so many steps in all; 0: no such end
  Count batch{128};                   ///< samples of a step over all ranks
  nn::LearningRateSchedule schedule;  ///< of the learning rate, over all steps of the run
  nn::SgdOptions sgd;
  bool sync_batch_norm = false;  ///< mean and variance of all samples of a step, not of each rank's, or shard's
  /// Parts into which a step's samples are cut, at least as many as ranks, whose gradients are added in one order: the
  /// same bits on any number of ranks. 0: each rank's samples are one part.
  int shards = 0;
  int lanes = 1;         ///< threads of a rank that take shards side by side
  int accumulate = 1;    ///< micro-batches of a step on each rank, one after the other, with one update
  double clip_norm = 0;  ///< the longest gradient; 0: any
  double ema = 0;        ///< decay of the average of weights that evaluations use; 0: none
  /// Each rank updates a part of the weights only, and holds the velocity and averages of that part only (ZeRO, stage
  /// 1).
  bool zero = false;
  LossScaleOptions loss_scale;
  nn::Passes passes;
  std::uint64_t seed = 1;  ///< of initialization and shuffling
  InitialValues initial = InitialValues::broadcast;
  int workers = 1;                   ///< threads that make batches, on each rank
  Bytes bucket{4 << 20};             ///< of gradients that are reduced together
  std::int64_t compare_every = 100;  ///< steps from one comparison of the ranks' weights to the next; 0: never
  std::int64_t log_every = 50;       ///< steps from one step event to the next
  /// Epochs from one evaluation to the next; the end of the run is evaluated as well. 0: nothing is evaluated.
  std::int64_t eval_interval = 1;
};

/// Hears what happens in a run. A rank may have one or not; what concerns all ranks is the same on each.
class Listener {
 public:
  virtual ~Listener() = default;
  /// After every step. It is called between steps, so it should take no more than microseconds.
  virtual void progress(const observe::ProgressEvent& /*event*/) {}
  /// After every `log_every`th step.
  virtual void step(const observe::StepEvent& event) = 0;
  /// After every batch of an evaluation.
  virtual void evaluation(const observe::EvaluationEvent& /*event*/) {}
  /// After an epoch, and its evaluation where it has one.
  virtual void epoch(const observe::EpochEvent& event) = 0;
};

}  // namespace lockstep::trainer
