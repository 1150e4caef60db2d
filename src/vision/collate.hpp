// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"
#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {

/// The label of a sample, pixel or cell that is left out: losses and metrics ignore it, as PyTorch's.
inline constexpr std::int32_t left_out_label = -100;

/// Writes what is known about a picture as the targets of a model. It belongs to a workload; sources know annotations
/// only.
class Collate {
 public:
  virtual ~Collate() = default;
  /// The tensors of a batch beside "images".
  /// @param input    size of the network's input
  /// @param classes  number of classes of the source
  [[nodiscard]] virtual std::vector<TensorSpec> tensors(const Size& input, std::int64_t classes) const = 0;
  /// Overwrites the targets of a sample. Several threads may call it at once. It does not allocate.
  /// @param annotation  in pixels of the network's input; an empty one for a sample that is left out
  /// @param targets     the elements of one sample of each tensor, in their order
  virtual void write(const Annotation& annotation, const Size& input, std::span<const Buffer> targets) const = 0;
};

/// Writes "labels", the class of each picture: one integer, `left_out_label` where none is known.
class LabelCollate final : public Collate {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& /*input*/, std::int64_t /*classes*/) const override {
    return {{"labels", {1, 1, 1}, Content::integer}};
  }
  void write(const Annotation& annotation, const Size& /*input*/, std::span<const Buffer> targets) const override {
    *static_cast<std::int32_t*>(targets[0].data) = annotation.label >= 0 ? annotation.label : left_out_label;
  }
};

/// Writes one number of any dtype that a tensor can have. @param at  index of the element in the sample
inline void put(const Buffer& target, std::int64_t at, double value) {
  if (target.dtype == DType::float32) static_cast<float*>(target.data)[at] = static_cast<float>(value);
  if (target.dtype == DType::float64) static_cast<double*>(target.data)[at] = value;
  if (target.dtype == DType::int32) static_cast<std::int32_t*>(target.data)[at] = static_cast<std::int32_t>(value);
}

}  // namespace lockstep::vision
