// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "lockstep/nn/network.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// The operator of a layer for inputs of these formats.
std::unique_ptr<ops::Operator> make_operator(ops::Ops& ops, const LayerKind& kind, std::span<const ops::Format> inputs);

}  // namespace lockstep::nn
