// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/shapes.hpp"

/// What the losses' signatures are made of.
namespace lockstep::ops {

/// A loss: loss_sums, and what is read and written at least.
/// @param each  operations for each element of the first input; half as many again for its gradient
Signature loss_of(std::span<const Shape> inputs, std::int64_t each, std::vector<Content> contents = {});

/// @throws Error{invalid_argument} unless there are predictions and targets alike, and weights, if any, of one channel
///         or as many as there are
void require_targets(std::span<const Shape> inputs, std::int64_t weight_channels, const char* what);

/// @throws Error{invalid_argument} unless the smoothing lies between 0 and 1, and weights are none, or as many as
///         classes and none below 0
void require_classes(double label_smoothing, std::span<const double> class_weights, std::int64_t classes);
/// ", smoothing 0.1, weighted classes", or less.
std::string text_of_classes(double label_smoothing, std::span<const double> class_weights);

}  // namespace lockstep::ops
