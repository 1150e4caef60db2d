// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "vision/image/image.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// Reads the class of each pixel of pictures from the output of a network that has a number for each class and pixel,
/// and from the tensor "frame" of their batch.
class MaskReader {
 public:
  /// Returns the reader for a model; nothing if it has no such output or its batches have no frames.
  static std::optional<MaskReader> of(const FoundModel& model);

  /// Returns the classes of the pixels of a picture as it is stored, in one channel; nothing for a sample that is left
  /// out, because its picture cannot be decoded. The numbers are interpolated between the pixels of the input, as
  /// PyTorch's interpolate(mode="bilinear", align_corners=False) does it for the part of the input that the picture
  /// has; then the class with the largest one is taken, the first of equal ones.
  /// @param sample  position in the batch
  [[nodiscard]] std::optional<vision::Image> mask(const nn::Prediction& prediction, const data::Batch& batch,
                                                  std::int64_t sample) const;
  [[nodiscard]] std::int64_t classes() const { return classes_; }

 private:
  std::int64_t classes_ = 0;
  std::size_t output_ = 0;            // index among the outputs
  std::size_t frames_ = 0;            // index among the tensors of a batch
  std::vector<vision::Size> inputs_;  // by Batch::extents
};

}  // namespace lockstep::workloads
