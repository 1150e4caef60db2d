// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/ops/operators.hpp"

/// What the operators' signatures are made of.
namespace lockstep::ops {

/// "2x3x8x8".
std::string text(const Shape& shape);

/// @throws Error{invalid_argument} with the message unless the condition holds
void require(bool condition, const std::string& message);
/// @throws Error{invalid_argument} if the value is smaller
void require_at_least(std::int64_t value, std::int64_t least, const char* what);
/// @throws Error{invalid_argument} for another number of inputs, or if one has no channels, height or width
void require_inputs(std::span<const Shape> inputs, std::size_t number, const char* what);

/// How many channels and square windows a result has.
/// @throws Error{invalid_argument} if there are none
struct Windows {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding = 0;
};
Shape windows_of(const Shape& in, std::int64_t channels, const Windows& windows);

/// "3×3, stride 2".
std::string text(const Windows& windows);
/// ", ReLU", or nothing.
std::string text(Activation activation);

/// With the activation's: in backward the sign of the result says what passes.
Cost with_activation(Cost own, Activation activation, std::int64_t results, bool backward);

/// Of a product with a matrix of weights, in which each result is a sum of `each` products: sets parameters and costs.
Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation);

}  // namespace lockstep::ops
