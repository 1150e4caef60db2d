// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/normalization.hpp"

namespace lockstep::data {

/// One rank's share of a step, ready for the model. A view.
struct Batch {
  std::int64_t step = 0;                 ///< of the epoch, from 0
  Count samples;                         ///< on this rank; may be 0
  Count step_samples;                    ///< over all ranks
  Buffer images;                         ///< samples × channels × height × width, row-major, normalised
  std::span<const std::int32_t> labels;  ///< `samples` of them
};

/// Gathers samples and normalises them, by a table of 256 values per channel.
class BatchMaker {
 public:
  /// @param dataset  is only read and must outlive this
  /// @param dtype    float32 or float64
  /// @throws Error{invalid_argument} for another dtype or a normalisation of another number of channels
  BatchMaker(const Dataset& dataset, const Normalization& normalization, DType dtype);

  /// Overwrites the first elements of `images`, of the maker's dtype, and of `labels`. May run in several threads at
  /// once. Allocates nothing.
  /// @throws Error{invalid_argument} if an index is not in the data set or the samples do not fit
  void make(std::span<const std::int64_t> indices, Buffer images, std::span<std::int32_t> labels) const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Elements of one image.
  [[nodiscard]] std::int64_t sample_elements() const { return dataset_->shape.elements(); }

 private:
  void check(std::span<const std::int64_t> indices, const Buffer& images, std::span<const std::int32_t> labels) const;

  const Dataset* dataset_;
  DType dtype_;
  std::vector<double> table_;        ///< channels × 256
  std::vector<float> single_table_;  ///< the same, rounded
};

}  // namespace lockstep::data
