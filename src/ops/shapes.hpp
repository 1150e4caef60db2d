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
void require_at_least(const Pair& value, std::int64_t least, const char* what);
/// @throws Error{invalid_argument} for another number of inputs, or if one has no channels, height or width
void require_inputs(std::span<const Shape> inputs, std::size_t number, const char* what);

/// Where a result's windows lie.
struct Windows {
  Pair kernel;
  Pair stride;
  Pair padding = 0;
  Pair dilation = 1;
};
/// @throws Error{invalid_argument} naming the option that cannot be
void check(const Windows& windows);
/// How many channels and windows a result has.
/// @throws Error{invalid_argument} if there are none
Shape windows_of(const Shape& in, std::int64_t channels, const Windows& windows);

/// The elements, from `begin` to before `end`, that window `index` of `windows` takes along an axis of `extent` where
/// the windows adapt to that.
struct Stretch {
  std::int64_t begin;
  std::int64_t end;
};
Stretch adaptive_window(std::int64_t index, std::int64_t windows, std::int64_t extent);

/// @throws Error{invalid_argument} unless the groups divide the channels of both sides
void require_groups(std::int64_t groups, std::int64_t in_channels, std::int64_t out_channels);

/// "3", or "3×1" where the directions differ.
std::string text(const Pair& pair);
/// "3×3, stride 2, dilation 2".
std::string text(const Windows& windows);
/// ", groups 32", or nothing.
std::string text_of_groups(std::int64_t groups);
/// ", ReLU", or nothing.
std::string text(Activation activation);
/// @throws Error{invalid_argument} unless it is one that every operator with an activation has
void require_common(Activation activation);

/// With the activation's: in backward the sign of the result says what passes.
Cost with_activation(Cost own, Activation activation, std::int64_t results, bool backward);

/// Of a product with a matrix of weights, in which each result is a sum of `each` products: sets parameters and costs.
Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation);
/// The same of `products` in all, with weights and biases that begin as if each result were a sum of `fan_in`.
struct Products {
  std::int64_t products;
  std::int64_t fan_in;
};
Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation,
                  const Products& of);

}  // namespace lockstep::ops
