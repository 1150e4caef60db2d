// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "lockstep/ops/ops.hpp"

/// These kernels are plain loops over plain NCHW arrays. There is one file per family of operators.
namespace lockstep::ops::reference {

std::unique_ptr<Kernel> make(const Convolution& shape, std::span<const Format> in);
std::unique_ptr<Kernel> make(const BatchNorm& shape, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Relu& relu, std::span<const Format> in);
std::unique_ptr<Kernel> make(const MaxPool& pool, std::span<const Format> in);
std::unique_ptr<Kernel> make(const AveragePool& pool, std::span<const Format> in);
std::unique_ptr<Kernel> make(const GlobalAveragePool& pool, std::span<const Format> in);
std::unique_ptr<Kernel> make(const AdaptiveAveragePool& pool, std::span<const Format> in);
std::unique_ptr<Kernel> make(const TransposedConvolution& shape, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Linear& linear, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Add& add, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Dropout& dropout, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Pointwise& function, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Multiply& product, std::span<const Format> in);
std::unique_ptr<Kernel> make(const FrozenBatchNorm& norm, std::span<const Format> in);
std::unique_ptr<Kernel> make(const LayerNorm& norm, std::span<const Format> in);
std::unique_ptr<Kernel> make(const GroupNorm& norm, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Concat& concat, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Slice& slice, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Reshape& reshape, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Permute& permute, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Resize& resize, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Lstm& lstm, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Embedding& embedding, std::span<const Format> in, DType reals);
std::unique_ptr<Kernel> make(const CrossEntropy& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const SoftCrossEntropy& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const BinaryCrossEntropy& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const SmoothL1& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Giou& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Dice& loss, std::span<const Format> in);
std::unique_ptr<Kernel> make(const Ctc& loss, std::span<const Format> in);

inline std::unique_ptr<Kernel> make(const Custom& custom, std::span<const Format> in) { return custom.of->make(in); }

/// Returns the format of the result of an operator with one input.
template <typename Kind>
Format output_of(const Kind& op, const Format& in) {
  return Format::plain(op.signature(std::span(&in.shape, 1)).output, in.dtype);
}

/// Makes Implementation<float> or Implementation<double>, by the dtype of the first input. @pre it is one of these
template <template <typename> typename Implementation, typename Kind>
std::unique_ptr<Kernel> make_for(std::span<const Format> in, const Kind& op) {
  if (in[0].dtype == DType::float32) return std::make_unique<Implementation<float>>(in[0], op);
  return std::make_unique<Implementation<double>>(in[0], op);
}

}  // namespace lockstep::ops::reference
