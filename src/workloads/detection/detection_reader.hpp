// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "workloads/detection/boxes.hpp"
#include "workloads/detection/non_max_suppression.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// Returns a box of the input in pixels of the stored picture, without what lies outside of the picture. A box that
/// lies outside as a whole has no area.
Rectangle to_stored(const Rectangle& in_input, const vision::Frame& frame);

/// Reads the detections of samples from a model's output "detections" and the tensor "frame" of their batch.
class DetectionReader {
 public:
  /// @param tensors  of a batch
  /// @throws Error{invalid_argument} if the output or the tensor is missing, or is for another number of classes
  DetectionReader(const nn::Graph& graph, const std::vector<TensorSpec>& tensors, std::int64_t classes,
                  const NmsOptions& options);

  /// Returns the detections in pixels of the stored picture, the best one first; nothing for a sample that is left out,
  /// because its picture cannot be decoded. @param sample  position in the batch
  [[nodiscard]] std::optional<std::vector<Detection>> detections(const nn::Prediction& prediction,
                                                                 const data::Batch& batch, std::int64_t sample) const;

 private:
  std::int64_t classes_;
  NmsOptions options_;
  std::size_t output_ = 0;  // index among the outputs
  std::size_t frames_ = 0;  // index among the tensors of a batch
};

/// Returns what reads the finding of a sample, by its position in the batch; empty if the model has no output
/// "detections". @throws Error{invalid_argument} as DetectionReader, for a model that has one
std::function<std::unique_ptr<Finding>(const nn::Prediction&, const data::Batch&, std::int64_t sample)> find_boxes(
    const nn::Graph& graph, const std::vector<TensorSpec>& tensors, std::int64_t classes, const NmsOptions& options);

}  // namespace lockstep::workloads
