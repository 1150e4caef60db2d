// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"
#include "ops/onednn/context.hpp"

/// One file per family of operators. Batches are not empty here: `empty_batch.hpp` stands in for those.
namespace lockstep::ops::onednn {

std::unique_ptr<Operator> make_convolution(const ContextPtr& context, const Format& in, const ConvolutionShape& shape);
std::unique_ptr<Operator> make_batch_norm(const ContextPtr& context, const Format& in, const BatchNormShape& shape);
std::unique_ptr<Operator> make_relu(const ContextPtr& context, const Format& in);
std::unique_ptr<Operator> make_max_pool(const ContextPtr& context, const Format& in, const PoolShape& shape);
std::unique_ptr<Operator> make_average_pool(const ContextPtr& context, const Format& in, const PoolShape& shape);
std::unique_ptr<Operator> make_linear(const ContextPtr& context, const Format& in, std::int64_t out_channels,
                                      Activation activation);
std::unique_ptr<Operator> make_add(const ContextPtr& context, const Format& a, const Format& b, Activation activation);
std::unique_ptr<Loss> make_softmax_cross_entropy(const ContextPtr& context, const Format& logits);

}  // namespace lockstep::ops::onednn
