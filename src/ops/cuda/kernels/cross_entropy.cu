// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/classes.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

template <typename E>
struct LabelLoss {
  const void* logits;
  Labels labels;
  ClassShares shares;
  std::int64_t padded;

  __device__ LossTerms operator()(std::int64_t row, const PositionTeam& team) const {
    const Scores<E> scores{logits, row * padded, labels.classes};
    const Largest largest = scores.largest(team);
    const float log_sum = std::log(scores.sum_of_exponentials(largest.value, team));
    const double spread_loss = shares.spread_total == 0 ? 0 : loss_of_spread(scores, largest.value, log_sum, team);
    LossTerms terms{0, 0, 0, labels.bad_from_end(row)};
    const std::int32_t label = labels.data[row];
    if (!labels.counts(row) || shares.mass(label) == 0) return terms;
    terms.weight = shares.weight(label);
    if (const double own = shares.own(terms.weight); own != 0)
      terms.loss = own * static_cast<double>(log_sum - (scores[label] - largest.value));
    terms.loss += spread_loss;
    terms.correct = largest.at == label ? terms.weight : 0;
    return terms;
  }
  __device__ double loss_of_spread(const Scores<E>& scores, float shift, float log_sum,
                                   const PositionTeam& team) const {
    double loss = 0;
    for (std::int64_t c = team.lane; c < labels.classes; c += team_size) {
      const float spread = shares.spread(c);
      if (spread != 0) loss += static_cast<double>(spread) * static_cast<double>(log_sum - (scores[c] - shift));
    }
    return team.sum(loss);
  }
};

/// (softmax − target) times the gradient of the loss and the weights of the target's parts.
template <typename E>
struct LabelGradient {
  const void* logits;
  void* gradient;
  const double* factor;
  Labels labels;
  ClassShares shares;
  std::int64_t padded;

  __device__ void operator()(std::int64_t row, bool exists, const PositionTeam& team) const {
    const Scores<E> scores{logits, row * padded, labels.classes};
    const float shift = scores.largest(team).value;
    const float sum = scores.sum_of_exponentials(shift, team);
    if (!exists) return;
    const bool counts = labels.counts(row);
    const std::int32_t label = labels.data[row];
    const auto own = counts ? static_cast<float>(shares.own(shares.weight(label))) : 0.0F;
    const auto mass = counts ? static_cast<float>(shares.mass(label)) : 0.0F;
    const float scale = mass == 0 ? 0.0F : static_cast<float>(*factor);
    for (std::int64_t c = team.lane; c < padded; c += team_size) {
      float value = 0;
      if (c < labels.classes && scale != 0) {
        const float target = (c == label ? own : 0.0F) + shares.spread(c);
        value = scale * (mass * (std::exp(scores[c] - shift) / sum) - target);
      }
      store<E>(gradient, row * padded + c, value);
    }
  }
};

/// Sums the weights of the labels. Without weights of classes, those that are no class count, too, as in the reference.
void sum_label_weights(const Labels& labels, const ClassShares& shares, const FinishLabels& finish,
                       const Arguments& call) {
  sum_rows<LossTerms>(
      labels.count, 1,
      [=] __device__(std::int64_t i, std::int64_t /*column*/) {
        if (shares.weights == nullptr) return LossTerms{labels.data[i] == labels.ignored ? 0.0 : 1.0, 0, 0, 0};
        const double weight = labels.counts(i) ? shares.weight(labels.data[i]) : 0;
        return LossTerms{weight, 0, 0, labels.bad_from_end(i)};
      },
      finish, call.workspace, call.queue);
}

template <typename E>
Implementation cross_entropy(const CrossEntropy& op, Formats in) {
  const TensorView view = view_of(in[0]);
  const OwnedShares owned = shares_of(op.label_smoothing, op.class_weights, view.channels);
  const auto labels = [=](const Arguments& call) {
    return Labels{static_cast<const std::int32_t*>(call.inputs[1]), view.positions(), view.channels, op.ignore_index};
  };
  const auto finish = [=](const Arguments& call, bool only_weight) {
    return FinishLabels{
        labels(call), view.height * view.width, static_cast<LossSums*>(call.output), only_weight, call.fault,
        call.node};
  };
  return {.traits = loss_traits(in, classes_workspace(view.positions())),
          .forward =
              [=](const Arguments& call) {
                const LabelLoss<E> loss{call.inputs[0], labels(call), owned.shares, view.padded};
                sum_runs<team_size, LossTerms>(view.positions(), loss, finish(call, false), call.workspace, call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const LabelGradient<E> body{
                    call.inputs[0], call.input_gradients[0], factor_of(call), labels(call), owned.shares, view.padded};
                if (body.gradient != nullptr) for_each_run<team_size>(view.positions(), body, call.queue);
              },
          .normalizer =
              [=](const Arguments& call) { sum_label_weights(labels(call), owned.shares, finish(call, true), call); }};
}

}  // namespace

Implementation make(const CrossEntropy& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return cross_entropy<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
