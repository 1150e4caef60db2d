// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "lockstep/ops/operators.hpp"

/// Helpers for the operators' signatures.
namespace lockstep::ops {

std::vector<Shape> shapes_of(Formats formats);

/// Returns a text such as "2x3x8x8".
std::string text(const Shape& shape);

/// @throws Error{invalid_argument} with the message unless the condition holds
void require(bool condition, const std::string& message);
/// @throws Error{invalid_argument} if the value is smaller
void require_at_least(std::int64_t value, std::int64_t least, const char* what);
void require_at_least(const Pair& value, std::int64_t least, const char* what);
/// @throws Error{invalid_argument} for another number of inputs, or if one has no channels, height or width
void require_inputs(std::span<const Shape> inputs, std::size_t number, const char* what);

/// The geometry of a result's windows.
struct Windows {
  Pair kernel;
  Pair stride;
  Pair padding = 0;
  Pair dilation = 1;
};
/// @throws Error{invalid_argument} naming the invalid option
void check(const Windows& windows);
/// Returns the shape of a result with this number of channels.
/// @throws Error{invalid_argument} if it has no windows
Shape windows_of(const Shape& in, std::int64_t channels, const Windows& windows);

/// The elements of a window along an axis: [begin, end).
struct Stretch {
  std::int64_t begin;
  std::int64_t end;
};
Stretch adaptive_window(std::int64_t index, std::int64_t windows, std::int64_t extent);

/// @throws Error{invalid_argument} unless the groups divide the channels of both sides
void require_groups(std::int64_t groups, std::int64_t in_channels, std::int64_t out_channels);

/// Returns "3", or "3×1" if height and width differ.
std::string text(const Pair& pair);
/// Returns a text such as "3×3, stride 2, dilation 2".
std::string text(const Windows& windows);
/// Returns a text such as ", groups 32", or nothing.
std::string text_of_groups(std::int64_t groups);
/// Returns a text such as ", ReLU", or nothing.
std::string text(Activation activation);
/// @throws Error{invalid_argument} unless every operator with an activation supports it
void require_common(Activation activation);

/// Adds the activation's cost. In backward the result is read, because its sign decides where the gradient passes.
OperatorCost with_activation(OperatorCost own, Activation activation, std::int64_t results, bool backward);

/// Returns the signature, with parameters and costs, of a product with a matrix of weights, in which each result is a
/// sum of `each` products.
Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation);
/// The total number of products, and the fan-in that sets the initial spread of weights and biases.
struct Products {
  std::int64_t products;
  std::int64_t fan_in;
};
Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation,
                  const Products& of);

using Extents = std::array<std::int64_t, 3>;

inline std::size_t index_of(Axis axis) { return static_cast<std::size_t>(axis); }

inline Extents sample_extents(const Shape& shape) { return {shape.channels, shape.height, shape.width}; }

inline Shape shape_of(std::int64_t batch, const Extents& extents) {
  return {batch, extents[0], extents[1], extents[2]};
}

/// Returns the number of adjacent elements that share the indices of all axes before this one.
inline std::int64_t run_of(const Shape& shape, Axis axis) {
  const Extents extents = sample_extents(shape);
  std::int64_t run = 1;
  for (std::size_t i = index_of(axis); i < extents.size(); ++i) run *= extents[i];
  return run;
}

inline std::string text(Axis axis) {
  constexpr std::array names{"channels", "height", "width"};
  return names.at(index_of(axis));
}

}  // namespace lockstep::ops
