// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/graph.hpp"

namespace lockstep::nn {

/// Checks that two graphs are one model, with inputs of other height and width: the same inputs, parameters, state,
/// losses and outputs, by name and in order, and tensors with the same initial values.
/// @throws Error{invalid_argument} that names the model, the extents of the first input that differs, and the first
///         tensor that does, with both of its shapes
void require_same_model(const Graph& usual, const Graph& other);

}  // namespace lockstep::nn
