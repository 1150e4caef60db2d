// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "ops/cuda/device/losses.cuh"
#include "ops/cuda/device/runs.cuh"
#include "platform/gpu/gpu.hpp"

/// Helpers of losses over classes: the weights of classes, and the softmax over the scores of a position.
namespace lockstep::ops::cuda {

/// Number of threads that share the classes of a position.
inline constexpr int team_size = 32;
using PositionTeam = Team<team_size>;

/// The weight of each class, and the part of a target that label smoothing spreads over all classes.
/// @see reference::ClassShares
struct ClassShares {
  double own_part;        ///< the part of a target that is not spread
  double spread_part;     ///< the part that is spread, divided by the number of classes
  double spread_total;    ///< Σ spread
  const double* weights;  ///< in device memory; null: all are 1

  [[nodiscard]] LOCKSTEP_HOST_DEVICE double own(double class_weight) const { return own_part * class_weight; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE float spread_of(double class_weight) const {
    return static_cast<float>(spread_part * class_weight);
  }
  [[nodiscard]] __device__ double weight(std::int64_t c) const { return weights == nullptr ? 1 : weights[c]; }
  [[nodiscard]] __device__ float spread(std::int64_t c) const { return spread_of(weight(c)); }
  /// The total weight of all parts of a label's target.
  [[nodiscard]] __device__ double mass(std::int64_t label) const { return own(weight(label)) + spread_total; }
};

/// The shares, and the memory that they point to.
struct OwnedShares {
  ClassShares shares;
  std::shared_ptr<const Allocation> memory;
};

inline OwnedShares shares_of(double label_smoothing, const std::vector<double>& class_weights, std::int64_t classes) {
  ClassShares shares{1 - label_smoothing, label_smoothing / static_cast<double>(classes), 0, nullptr};
  for (std::int64_t c = 0; c < classes; ++c) {
    const double weight = class_weights.empty() ? 1 : class_weights[static_cast<std::size_t>(c)];
    shares.spread_total += static_cast<double>(shares.spread_of(weight));
  }
  if (class_weights.empty()) return {shares, nullptr};
  const Bytes bytes{classes * static_cast<std::int64_t>(sizeof(double))};
  auto memory = std::make_shared<const Allocation>(allocate_device(bytes));
  Stream stream;
  copy_bytes(memory->data(), class_weights.data(), bytes, stream.queue());
  stream.synchronize();
  shares.weights = static_cast<const double*>(memory->data());
  return {shares, memory};
}

/// The largest of some scores; the first one if there are several.
struct Largest {
  float value;
  std::int64_t at;
  static __device__ Largest of(const Largest& a, const Largest& b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
  }
};

/// The scores of all classes at one position.
template <typename E>
struct Scores {
  const void* data;
  std::int64_t first;
  std::int64_t classes;

  __device__ float operator[](std::int64_t c) const { return load<E>(data, first + c); }
  __device__ Largest largest(const PositionTeam& team) const {
    Largest largest{-std::numeric_limits<float>::infinity(), std::numeric_limits<std::int64_t>::max()};
    if (team.lane < classes) largest = {(*this)[team.lane], team.lane};
    for (std::int64_t c = team.lane; c < classes; c += team_size) largest = Largest::of(largest, {(*this)[c], c});
    return team.all(largest, Largest::of);
  }
  /// Returns Σ exp(score − shift). With the largest score as shift, no exponential overflows.
  __device__ float sum_of_exponentials(float shift, const PositionTeam& team) const {
    float sum = 0;
    for (std::int64_t c = team.lane; c < classes; c += team_size) sum += std::exp((*this)[c] - shift);
    return team.sum(sum);
  }
};

/// The labels of positions.
struct Labels {
  const std::int32_t* data;
  std::int64_t count;
  std::int64_t classes;
  std::int32_t ignored;

  [[nodiscard]] __device__ bool is_class(std::int64_t i) const { return data[i] >= 0 && data[i] < classes; }
  /// Whether the label counts. One that is no class does not.
  [[nodiscard]] __device__ bool counts(std::int64_t i) const { return is_class(i) && data[i] != ignored; }
  /// `LossTerms::from_end` of a label.
  [[nodiscard]] __device__ std::int64_t bad_from_end(std::int64_t i) const {
    return is_class(i) || data[i] == ignored ? 0 : count - i;
  }
};

/// Writes the sums, and reports the first label that is no class.
struct FinishLabels {
  Labels labels;
  std::int64_t positions;
  LossSums* to;
  bool only_weight;
  Fault* fault;
  std::int32_t node;
  __device__ void operator()(std::int64_t /*column*/, const LossTerms& terms) const {
    terms.write(to, only_weight);
    if (terms.from_end == 0) return;
    const std::int64_t i = labels.count - terms.from_end;
    report(fault, {FaultCode::label, node, i / positions, labels.data[i], labels.classes});
  }
};

/// The bytes of workspace that sums over so many positions need, by `sum_runs` or `sum_rows`.
inline Bytes classes_workspace(std::int64_t positions) {
  const std::int64_t most = std::max(parts_of_runs<team_size>(positions), RowParts(positions, 1).partials());
  return {most * static_cast<std::int64_t>(sizeof(LossTerms))};
}

}  // namespace lockstep::ops::cuda
