// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/ops/ops.hpp"

/// Shape inference and argument checks that every implementation shares.
namespace lockstep::ops {

/// @throws Error{invalid_argument} if an extent is negative, or channels, height or width is 0
void check_shape(const Shape& shape);

/// Output of a convolution. @throws Error{invalid_argument} if the options make no sense for `in`
Shape output_shape(const Shape& in, const ConvolutionShape& shape);
/// Output of a pooling. @throws Error{invalid_argument} if the options make no sense for `in`
Shape output_shape(const Shape& in, const PoolShape& shape);
/// Output of a linear layer. @throws Error{invalid_argument} if `out_channels` < 1
Shape output_shape(const Shape& in, std::int64_t out_channels);

/// @throws Error{invalid_argument} if epsilon or momentum is out of range
void check_batch_norm(const Shape& in, const BatchNormShape& shape);
/// @throws Error{invalid_argument} if shapes or dtypes differ
void check_same(const Format& a, const Format& b);
/// @throws Error{invalid_argument} unless height = width = 1
void check_logits(const Shape& logits);

/// How many pointers an operator takes.
struct Arity {
  std::size_t inputs = 1;
  std::size_t parameters = 0;
  std::size_t state = 0;

  /// @throws Error{invalid_argument} if the call brings another number
  void check(const Operator::Forward& call) const;
  /// @throws Error{invalid_argument} if the call brings another number
  void check(const Operator::Backward& call) const;
};

}  // namespace lockstep::ops
