// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/formulas/anchors.hpp"

/// What the losses of detectors with anchors read: the boxes of samples, and predictions.
namespace lockstep::ops::cuda {

/// The boxes of all samples, as the data has them: {5, 1, boxes} of each sample. They are not converted, because the
/// normalizer reads the inputs themselves.
struct AnchorBoxes {
  const float* data;
  Divisor each;  ///< number of a sample

  /// Number k of a box of a sample.
  [[nodiscard]] __device__ float number(std::int64_t sample, std::int64_t box, std::int64_t k) const {
    return data[(sample * numbers_of_box + k) * each + box];
  }
  [[nodiscard]] __device__ AnchorTarget target(std::int64_t sample, std::int64_t box, const AnchorMap& map) const {
    double numbers[numbers_of_box];
    for (std::int64_t k = 0; k < numbers_of_box; ++k) numbers[k] = static_cast<double>(number(sample, box, k));
    return {numbers, map};
  }
  /// The same of box i of all samples.
  [[nodiscard]] __device__ AnchorTarget target(std::int64_t i, const AnchorMap& map) const {
    const Division at = divide(i, each);
    return target(at.quotient, at.remainder, map);
  }
  /// `LossTerms::from_end` of a box.
  [[nodiscard]] __device__ std::int64_t bad_from_end(std::int64_t i, const AnchorMap& map) const {
    return target(i, map).label < map.classes() ? 0 : map.samples * each - i;
  }
};

/// A prediction: an anchor in a cell of a sample.
struct AnchorPlace {
  std::int64_t sample;
  std::int64_t row;
  std::int64_t column;
  std::int64_t anchor;
  std::int64_t first;  ///< place of its first number in memory

  /// @param i  anchors are innermost, then columns, rows and samples
  __device__ AnchorPlace(std::int64_t i, const AnchorMap& map, std::int64_t padded) {
    const Division cell = divide(i, map.anchors);
    const Division line = divide(cell.quotient, map.width);
    const Division image = divide(line.quotient, map.height);
    sample = image.quotient;
    row = image.remainder;
    column = line.remainder;
    anchor = cell.remainder;
    first = cell.quotient * padded + anchor * map.numbers;
  }
};

/// What the kernels of a loss read. Each thread has a prediction and walks the boxes of its sample, so that sums over
/// boxes have one order.
template <typename E>
struct AnchorCells {
  AnchorMap map;
  std::int64_t padded;  ///< channels in memory
  const void* x;
  AnchorBoxes boxes;

  /// Calls `f(target)` for each box that matches.
  template <typename F>
  __device__ void each_match(const AnchorPlace& at, const F& f) const {
    for (std::int64_t box = 0; box < boxes.each; ++box) {
      if (boxes.number(at.sample, box, 0) < 0) continue;  // most of them are not there
      const AnchorTarget target = boxes.target(at.sample, box, map);
      if (target.exists(map) && target.is_at(at.row, at.column) && target.fits(map.sizes[at.anchor])) f(target);
    }
  }
  [[nodiscard]] __device__ float number(const AnchorPlace& at, std::int64_t k) const {
    return load<E>(x, at.first + k);
  }
  [[nodiscard]] __device__ AnchorPrediction prediction(const AnchorPlace& at) const {
    double logits[4];
    for (int k = 0; k < 4; ++k) logits[k] = static_cast<double>(number(at, k));
    return {logits, at.row, at.column, map.sizes[at.anchor]};
  }
  /// The first box of the sample whose class does not exist, for the first prediction of a sample.
  [[nodiscard]] __device__ std::int64_t bad_from_end(const AnchorPlace& at) const {
    if (at.row + at.column + at.anchor > 0) return 0;
    for (std::int64_t i = at.sample * boxes.each; i < (at.sample + 1) * boxes.each; ++i)
      if (const std::int64_t bad = boxes.bad_from_end(i, map); bad > 0) return bad;
    return 0;
  }
  /// The objectness of a prediction.
  [[nodiscard]] __device__ float objectness(const AnchorPlace& at) const {
    double best = 0;
    each_match(at, [&](const AnchorTarget& target) {
      const double overlap = CompleteIou(prediction(at).box, target.box).value();
      if (best < overlap) best = overlap;
    });
    return static_cast<float>(best);
  }
};

}  // namespace lockstep::ops::cuda
