// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/shapes.hpp"

/// Helpers for the signatures of losses.
namespace lockstep::ops {

/// Returns the signature of a loss: its LossSums, and the least that it reads and writes.
/// @param each  operations per element of the first input; the gradient costs half as many again
Signature loss_of(std::span<const Shape> inputs, std::int64_t each, std::vector<Content> contents = {});

/// @throws Error{invalid_argument} unless predictions and targets have the same shape, and weights, if any, have one
///         channel or `weight_channels`
void require_targets(std::span<const Shape> inputs, std::int64_t weight_channels, const char* what);

/// @throws Error{invalid_argument} unless the smoothing is between 0 and 1, and there are either no weights or one for
///         each class, none below 0
void require_classes(double label_smoothing, std::span<const double> class_weights, std::int64_t classes);
/// Returns ", smoothing 0.1, weighted classes", or less.
std::string text_of_classes(double label_smoothing, std::span<const double> class_weights);

}  // namespace lockstep::ops
