// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/cuda/device/runs.cuh"
#include "ops/cuda/device/tensor_view.hpp"

/// Indices of the elements of the runs that layer norm and group norm normalize.
namespace lockstep::ops::cuda {

/// The elements that are normalized together: some neighboring channels of the positions of a block. A block is a
/// sample, or for layer norm over channels one position.
struct NormRuns {
  TensorView view;
  std::int64_t blocks;
  std::int64_t positions;  ///< of a block
  std::int64_t groups;     ///< number of runs of a block
  bool of_elements;        ///< whether each element of a sample has its own weight, otherwise each channel
  double epsilon;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t channels() const { return view.channels / groups; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t count() const { return blocks * groups; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t length() const { return positions * channels(); }
};

/// The mean and the factor by which values are normalized, in double. It is saved for backward as it is.
struct Standardization {
  double mean;
  double inverse_deviation;
  [[nodiscard]] __device__ float normal(float x) const {
    return static_cast<float>((static_cast<double>(x) - mean) * inverse_deviation);
  }
};

/// A run of a tensor.
struct NormRun {
  const NormRuns& of;
  std::int64_t group;
  std::int64_t first;  ///< index of its first element
  std::int64_t width;  ///< number of channels, and after the last run of a position also the padding

  __device__ NormRun(const NormRuns& runs, std::int64_t run)
      : of(runs),
        group(run % runs.groups),
        first(run / runs.groups * runs.positions * runs.view.padded + group * runs.channels()),
        width(runs.channels() + (group == runs.groups - 1 ? runs.view.padded - runs.view.channels : 0)) {}

  /// Calls f(index, weight's index) for the elements of a lane.
  template <int size, typename F>
  __device__ void for_each(const Team<size>& team, const F& f) const {
    for_each_of(of.channels(), team, f);
  }
  /// Does the same, and calls f(index, −1) for the padding.
  template <int size, typename F>
  __device__ void for_each_in_memory(const Team<size>& team, const F& f) const {
    for_each_of(width, team, f);
  }

 private:
  template <int size, typename F>
  __device__ void for_each_of(std::int64_t wide, const Team<size>& team, const F& f) const {
    for (std::int64_t i = team.lane; i < of.positions * wide; i += size) {
      const std::int64_t position = of.positions == 1 ? 0 : i / wide;
      const std::int64_t in_group = i - position * wide;
      const std::int64_t channel = group * of.channels() + in_group;
      const std::int64_t weight = of.of_elements ? channel * of.positions + position : channel;
      f(first + position * of.view.padded + in_group, in_group < of.channels() ? weight : -1);
    }
  }
};

}  // namespace lockstep::ops::cuda
