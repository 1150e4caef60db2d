// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "lockstep/ops/step.hpp"

/// The stages of a step, the same source on every device.
namespace lockstep::ops {

/// Adds `count` rows of `width` numbers in the canonical order into the first row, and overwrites the others.
/// @see canonical_tree_fold
LOCKSTEP_HOST_DEVICE inline void fold_rows(double* rows, int count, int width) {
  for (int stride = 1; stride < count; stride *= 2)
    for (int row = 0; row + stride < count; row += 2 * stride)
      for (int i = 0; i < width; ++i) rows[row * width + i] += rows[(row + stride) * width + i];
}

/// Computes `StepStage::begin`. Terms that an evaluation leaves out keep the sums of zero.
LOCKSTEP_HOST_DEVICE inline void begin(const StepBlock& b) {
  for (int i = 0; i < b.leaves() * b.terms; ++i) b.own[i] = LossSums{};
  for (int leaf = 0; leaf < b.leaves(); ++leaf) b.faults[leaf] = Fault{};
}

/// Computes `StepStage::sum_weights`.
LOCKSTEP_HOST_DEVICE inline void sum_weights(const StepBlock& b) {
  for (int i = 0; i < b.shards() * b.terms; ++i) b.shard_weights[i] = 0;
  for (int leaf = 0; leaf < b.leaves(); ++leaf) {
    double* shard = b.shard_weights + (b.first_shard + leaf / b.options.accumulate) * b.terms;
    for (int term = 0; term < b.terms; ++term)
      if (b.weightings[term].by_weight) shard[term] += b.own[leaf * b.terms + term].weight;
  }
}

/// Computes `StepStage::set_factors`.
LOCKSTEP_HOST_DEVICE inline void set_factors(const StepBlock& b) {
  fold_rows(b.shard_weights, b.shards(), b.terms);
  for (int term = 0; term < b.terms; ++term) {
    const LossWeighting& of = b.weightings[term];
    b.weights[term] = b.shard_weights[term];
    b.factors[term] =
        divided(of.coefficient * b.state->loss_scale, of.by_weight ? b.weights[term] : b.scalars->samples);
  }
  for (int leaf = 0; leaf < b.leaves(); ++leaf) {
    b.rng_keys[leaf] = b.scalars->rng_key;
    b.rng_keys[leaf].first_sample += b.first_samples[leaf];
  }
  for (int i = 0; i < b.parameters; ++i) b.not_finite[i] = 0;
}

/// Adds loss sums to three numbers.
LOCKSTEP_HOST_DEVICE inline void add_sums(const LossSums& sums, double* to) {
  to[0] += sums.weight;
  to[1] += sums.loss;
  to[2] += sums.correct;
}

/// Computes `StepStage::collect`: adds up the micro-batches of each shard in their order. Other ranks' shards are zero.
LOCKSTEP_HOST_DEVICE inline void collect(const StepBlock& b) {
  for (int i = 0; i < b.sums_count(); ++i) b.sums[i] = 0;
  for (int term = 0; term < b.terms; ++term) b.rank[term] = LossSums{};
  for (int leaf = 0; leaf < b.leaves(); ++leaf) {
    const int shard = b.first_shard + leaf / b.options.accumulate;
    for (int term = 0; term < b.terms; ++term) {
      add_sums(b.own[leaf * b.terms + term], b.sums + 3 * (shard * b.terms + term));
      add_sums(b.own[leaf * b.terms + term], &b.rank[term].weight);
    }
  }
  double* after = b.sums + 3 * b.shards() * b.terms;
  for (int i = 0; i < b.parameters; ++i) after[0] += b.not_finite[i] != 0 ? 1 : 0;
  after[1] = b.scalars->request;
  for (int leaf = 0; leaf < b.leaves(); ++leaf) after[2] += b.faults[leaf].code == FaultCode::none ? 0 : 1;
  for (int i = 0; i < b.found_count(); ++i) b.found[i] = 0;
}

/// Halves the loss scale after gradients that are not finite, and doubles it after an interval without any. Powers of
/// two do not round, and the limits are far from overflow and underflow.
LOCKSTEP_HOST_DEVICE inline void scale_loss(const StepBlock& b, bool finite) {
  if (b.options.loss_scale.initial == 0) return;
  StepState& state = *b.state;
  if (finite && ++state.scaled_steps < b.options.loss_scale.interval) return;
  const double scale = finite ? 2 * state.loss_scale : state.loss_scale / 2;
  state.loss_scale = finite ? (scale < 0x1p120 ? scale : 0x1p120) : (scale > 1 ? scale : 1);
  state.scaled_steps = 0;
}

/// Sets the scalars of the EMA weights for the update that is made, if it is.
LOCKSTEP_HOST_DEVICE inline void set_ema(const StepBlock& b) {
  if (b.options.ema == 0) return;
  const auto updates = static_cast<double>(b.state->updates);
  const double ramp = b.options.ema_ramp == 0 ? 1 : 1 - std::exp(-updates / b.options.ema_ramp);
  b.ema->keep = b.options.ema * ramp;
  b.ema->take = 1 - b.ema->keep;
  b.ema->go = b.update->go;
}

/// Lets the update read the sum of gradients over several steps, to which those of this step are added first. A step
/// whose gradients are not finite adds nothing.
LOCKSTEP_HOST_DEVICE inline void set_sum(const StepBlock& b, bool is_good) {
  if (!b.options.sum_steps) return;
  b.sum->keep = b.scalars->begins_sum != 0 ? 0 : 1;
  b.sum->take = is_good ? b.update->gradient_scale : 0;
  b.sum->go = b.state->halted == 0;
  b.update->gradient_scale = 1;
}

/// Computes `StepStage::gate`.
LOCKSTEP_HOST_DEVICE inline void gate(const StepBlock& b) {
  fold_rows(b.sums, b.shards(), 3 * b.terms);
  const auto* total = reinterpret_cast<const LossSums*>(b.sums);
  const double* after = b.sums + 3 * b.shards() * b.terms;
  StepResult& result = *b.result;
  StepState& state = *b.state;
  result.loss = objective(b.weightings, b.terms, total, b.scalars->samples);
  result.correct = total->correct;
  result.finite_gradients = after[0] == 0;
  for (int i = 0; i < b.parameters; ++i) result.finite_gradients = result.finite_gradients && b.found[1 + i] == 0;
  result.finite = result.finite_gradients && std::isfinite(result.loss);
  result.requests = after[1];
  result.faults = after[2];
  const double of_samples = b.options.times_samples ? b.scalars->samples : 1;
  result.gradient_norm = std::sqrt(b.found[0]) / state.loss_scale * of_samples;
  // As in PyTorch's clip_grad_norm_, the divisor is slightly larger than the norm.
  const double clipped = b.options.clip_norm == 0 ? 1 : b.options.clip_norm / (result.gradient_norm + 1e-6);
  const auto update = static_cast<double>(state.updates + 1);
  b.update->learning_rate = b.scalars->learning_rate;
  b.update->bias_learning_rate = b.scalars->bias_learning_rate;
  b.update->momentum = b.scalars->momentum;
  b.update->gradient_scale = (clipped < 1 ? clipped : 1) / state.loss_scale * of_samples;
  b.update->first_correction = 1 - std::pow(b.momentum, update);
  b.update->second_correction = 1 - std::pow(b.beta2, update);
  // A smaller loss scale helps gradients only, and not below 1.
  const bool hopeless = !std::isfinite(result.loss) || (!result.finite_gradients && state.loss_scale <= 1);
  if (result.faults != 0 || hopeless) state.halted = 1;
  const bool is_good = result.finite && state.halted == 0;
  b.update->go = is_good && (!b.options.sum_steps || b.scalars->updates != 0);
  if (b.update->go) ++state.updates;
  set_sum(b, is_good);
  set_ema(b);
  if (state.halted == 0) scale_loss(b, result.finite);
  result.state = state;
  for (int i = 0; i < 2 * b.parameters; ++i) b.trust_norms[i] = 0;
}

/// Computes one stage of a step.
LOCKSTEP_HOST_DEVICE inline void compute(StepStage stage, const StepBlock& block) {
  switch (stage) {
    case StepStage::begin: return begin(block);
    case StepStage::sum_weights: return sum_weights(block);
    case StepStage::set_factors: return set_factors(block);
    case StepStage::collect: return collect(block);
    case StepStage::gate: return gate(block);
  }
}

}  // namespace lockstep::ops
