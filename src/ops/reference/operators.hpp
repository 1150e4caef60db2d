// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "lockstep/ops/ops.hpp"
#include "ops/shapes.hpp"

/// These kernels are plain loops over plain NCHW arrays. There is one file per family of operators.
namespace lockstep::ops::reference {

KernelPtr make(const Convolution& shape, Formats in);
KernelPtr make(const BatchNorm& shape, Formats in);
KernelPtr make(const Relu& relu, Formats in);
KernelPtr make(const MaxPool& pool, Formats in);
KernelPtr make(const AveragePool& pool, Formats in);
KernelPtr make(const GlobalAveragePool& pool, Formats in);
KernelPtr make(const AdaptiveAveragePool& pool, Formats in);
KernelPtr make(const ChannelPool& pool, Formats in);
KernelPtr make(const TransposedConvolution& shape, Formats in);
KernelPtr make(const Linear& linear, Formats in);
KernelPtr make(const Add& add, Formats in);
KernelPtr make(const Dropout& dropout, Formats in);
KernelPtr make(const Pointwise& function, Formats in);
KernelPtr make(const Multiply& product, Formats in);
KernelPtr make(const FrozenBatchNorm& norm, Formats in);
KernelPtr make(const LayerNorm& norm, Formats in);
KernelPtr make(const GroupNorm& norm, Formats in);
KernelPtr make(const Concat& concat, Formats in);
KernelPtr make(const Slice& slice, Formats in);
KernelPtr make(const Reshape& reshape, Formats in);
KernelPtr make(const Permute& permute, Formats in);
KernelPtr make(const Resize& resize, Formats in);
KernelPtr make(const Lstm& lstm, Formats in);
KernelPtr make(const Embedding& embedding, Formats in, DType reals);
KernelPtr make(const CrossEntropy& loss, Formats in);
KernelPtr make(const OhemCrossEntropy& loss, Formats in);
KernelPtr make(const SoftCrossEntropy& loss, Formats in);
KernelPtr make(const BinaryCrossEntropy& loss, Formats in);
KernelPtr make(const SmoothL1& loss, Formats in);
KernelPtr make(const Giou& loss, Formats in);
KernelPtr make(const Dice& loss, Formats in);
KernelPtr make(const Ctc& loss, Formats in);
KernelPtr make(const AnchorLoss& loss, Formats in);
KernelPtr make(const AnchorDecode& decode, Formats in);

inline KernelPtr make(const Custom& custom, Formats in) { return custom.of->make(in); }

/// Returns the format of the result, which has the dtype of the first input.
template <typename Kind>
Format output_of(const Kind& op, Formats in) {
  return Format::plain(op.signature(shapes_of(in)).output, in[0].dtype);
}
template <typename Kind>
Format output_of(const Kind& op, const Format& in) {
  return output_of(op, Formats(&in, 1));
}

/// Returns the traits of an operator with one input whose backward pass reads neither its input nor its result.
inline Traits reading_gradients_only(const Format& in, const Format& out) {
  return {.inputs = {in}, .output = out, .backward_reads_inputs = false, .backward_reads_output = false};
}

/// Makes Implementation<float> or Implementation<double>, by the dtype of the first input. Its constructor takes all
/// inputs, or the only one. @pre the dtype is float32 or float64
template <template <typename> typename Implementation, typename Kind>
KernelPtr make_for(Formats in, const Kind& op) {
  const auto make_of = [&]<typename T>(T /*real*/) -> KernelPtr {
    if constexpr (std::is_constructible_v<Implementation<T>, const Format&, const Kind&>) {
      return std::make_unique<Implementation<T>>(in[0], op);
    } else {
      return std::make_unique<Implementation<T>>(in, op);
    }
  };
  return in[0].dtype == DType::float32 ? make_of(0.0F) : make_of(0.0);
}

}  // namespace lockstep::ops::reference
