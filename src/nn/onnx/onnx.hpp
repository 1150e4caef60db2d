// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "nn/description/description.hpp"

namespace lockstep::nn {

/// Returns the elements of a parameter or of a state tensor, row-major.
using WeightsOf = std::function<std::vector<float>(const TensorSlot& tensor)>;

/// Returns the evaluation of a model as a file in the format ONNX, of operator set 18, which onnxruntime 1.14 and later
/// compute. Inputs and outputs have the names of the graph's, such as "images", N×C×H×W in float32, and "logits",
/// N×classes; N is free. Tensors have their names. If the description has a normalization, the "images" are from 0 to
/// 1, and the file normalizes them. The metadata of the file are those of `to_metadata`.
/// @param graph  made by the described model; what only its losses read is left out
/// @throws Error{unsupported} that names the node and its operator if the export lacks it, and for a model of 2 GiB or
///         more, which the format cannot hold; what `weights` throws
/// @cost  twice the memory of the weights
std::string to_onnx(const Graph& graph, const ModelDescription& description, const WeightsOf& weights);

}  // namespace lockstep::nn
