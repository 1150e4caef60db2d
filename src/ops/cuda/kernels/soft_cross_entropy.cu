// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/classes.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The weight that a target gives each class.
struct SoftTargets {
  const void* data;
  TensorView view;
  ClassShares shares;
  __device__ Scores<Float32> scores(std::int64_t row) const { return {data, row * view.padded, view.channels}; }
  /// The factor of a class's −log softmax.
  __device__ double share(std::int64_t row, std::int64_t c) const {
    const double weight = shares.weight(c);
    return shares.own(weight) * static_cast<double>(scores(row)[c]) + static_cast<double>(shares.spread_of(weight));
  }
};

template <typename E>
struct SoftLoss {
  const void* logits;
  SoftTargets targets;
  std::int64_t padded;

  __device__ LossTerms operator()(std::int64_t row, const PositionTeam& team) const {
    const std::int64_t classes = targets.view.channels;
    const Scores<E> scores{logits, row * padded, classes};
    const Largest largest = scores.largest(team);
    const std::int64_t expected = targets.scores(row).largest(team).at;
    const float log_sum = std::log(scores.sum_of_exponentials(largest.value, team));
    double loss = 0;
    for (std::int64_t c = team.lane; c < classes; c += team_size) {
      const double share = targets.share(row, c);
      if (share != 0) loss += share * static_cast<double>(log_sum - (scores[c] - largest.value));
    }
    return {1, team.sum(loss), largest.at == expected ? 1.0 : 0.0, 0};
  }
};

template <typename E>
struct SoftGradients {
  const void* logits;
  SoftTargets targets;
  std::int64_t padded;
  void* of_logits;
  void* of_targets;
  const double* factor;

  __device__ void operator()(std::int64_t row, bool exists, const PositionTeam& team) const {
    const std::int64_t classes = targets.view.channels;
    const Scores<E> scores{logits, row * padded, classes};
    const float shift = scores.largest(team).value;
    const float sum = scores.sum_of_exponentials(shift, team);
    double mass = 0;
    for (std::int64_t c = team.lane; c < classes; c += team_size) mass += targets.share(row, c);
    mass = team.sum(mass);
    if (!exists) return;
    const auto scale = static_cast<float>(*factor);
    for (std::int64_t c = team.lane; c < padded; c += team_size) {
      const bool is_class = c < classes;
      const float logit = is_class ? scores[c] - shift : 0;
      if (of_logits != nullptr) {
        const float share = is_class ? static_cast<float>(targets.share(row, c)) : 0;
        const float difference = static_cast<float>(mass) * (std::exp(logit) / sum) - share;
        store<E>(of_logits, row * padded + c, is_class ? scaled(scale, difference) : 0.0F);
      }
      if (of_targets != nullptr && is_class) {
        const auto own = static_cast<float>(targets.shares.own(targets.shares.weight(c)));
        store<Float32>(of_targets, row * targets.view.padded + c, scaled(scale * own, std::log(sum) - logit));
      }
    }
  }
};

template <typename E>
Implementation soft_cross_entropy(const SoftCrossEntropy& op, Formats in) {
  const TensorView view = view_of(in[0]);
  const TensorView of_targets = view_of(in[1]);
  const OwnedShares owned = shares_of(op.label_smoothing, op.class_weights, view.channels);
  return {.traits = loss_traits(in, classes_workspace(view.positions())),
          .forward =
              [=](const Arguments& call) {
                const SoftLoss<E> loss{call.inputs[0], {call.inputs[1], of_targets, owned.shares}, view.padded};
                sum_runs<team_size, LossTerms>(view.positions(), loss, WriteSums{static_cast<LossSums*>(call.output)},
                                               call.workspace, call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const SoftGradients<E> body{call.inputs[0],
                                            {call.inputs[1], of_targets, owned.shares},
                                            view.padded,
                                            call.input_gradients[0],
                                            call.input_gradients[1],
                                            factor_of(call)};
                for_each_run<team_size>(view.positions(), body, call.queue);
              },
          .normalizer = [=](const Arguments& call) { write_weight(call, static_cast<double>(view.positions())); }};
}

}  // namespace

Implementation make(const SoftCrossEntropy& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return soft_cross_entropy<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
