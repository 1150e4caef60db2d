// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/onednn/primitives/context.hpp"

/// There is one file per family of operators. Kinds without an overload use the reference's kernel. Batches are not
/// empty here; `onednn_ops.cpp` handles those. Inputs and the result are either all float32 or all bfloat16;
/// parameters and their gradients are float32. All throw dnnl::error if oneDNN has no kernel for the request, or
/// Error{unsupported} if the reference's kernel is needed and does not exist either.
namespace lockstep::ops::onednn {

KernelPtr make(const Convolution& shape, const ContextPtr& context, Formats in);
/// Returns null unless it is a depthwise convolution for which oneDNN lacks a kernel in blocks of channels.
KernelPtr make_depthwise(const Convolution& shape, const ContextPtr& context, const Format& in);
KernelPtr make(const BatchNorm& shape, const ContextPtr& context, Formats in);
KernelPtr make(const Relu& relu, const ContextPtr& context, Formats in);
KernelPtr make(const MaxPool& pool, const ContextPtr& context, Formats in);
KernelPtr make(const AveragePool& pool, const ContextPtr& context, Formats in);
KernelPtr make(const GlobalAveragePool& pool, const ContextPtr& context, Formats in);
KernelPtr make(const AdaptiveAveragePool& pool, const ContextPtr& context, Formats in);
KernelPtr make(const TransposedConvolution& shape, const ContextPtr& context, Formats in);
KernelPtr make(const Linear& linear, const ContextPtr& context, Formats in);
KernelPtr make(const Add& add, const ContextPtr& context, Formats in);
KernelPtr make(const Pointwise& function, const ContextPtr& context, Formats in);
KernelPtr make(const Multiply& product, const ContextPtr& context, Formats in);
KernelPtr make(const Concat& concat, const ContextPtr& context, Formats in);
KernelPtr make(const FrozenBatchNorm& norm, const ContextPtr& context, Formats in);
/// Returns null, for the reference's kernel, if there is one direction only, samples have lengths of their own, or
/// values are bfloat16.
KernelPtr make(const Lstm& lstm, const ContextPtr& context, Formats in);

/// The algorithms of convolutions in kernel choices.
inline constexpr std::string_view direct = "direct";
inline constexpr std::string_view winograd = "winograd";
/// Implements `Ops::candidates`.
std::vector<KernelAlgorithms> candidates(const Convolution& shape, const ContextPtr& context, Formats in);
/// Returns whether oneDNN has Winograd's algorithm for this processor.
bool has_winograd(const ContextPtr& context);

}  // namespace lockstep::ops::onednn
