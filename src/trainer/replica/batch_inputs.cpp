// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

std::string extents_of(const TensorSpec& spec) {
  const auto& [channels, height, width] = spec.extent;
  return std::to_string(channels) + "×" + std::to_string(height) + "×" + std::to_string(width) +
         (spec.content == Content::real ? " real numbers" : " integers");
}

}  // namespace

BatchInputs::BatchInputs(const nn::Graph& graph, const std::vector<TensorSpec>& tensors) {
  for (TensorSpec input : graph.inputs()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorSpec& tensor) { return tensor.name == input.name; });
    if (found != tensors.end()) input.bytes = found->bytes;
    if (found == tensors.end() || *found != input) {
      throw Error(ErrorCode::invalid_argument, "model '" + graph.name() + "' takes '" + input.name + "' of " +
                                                   extents_of(input) + ", and the data set has " +
                                                   (found == tensors.end() ? "none" : extents_of(*found)));
    }
    tensors_.push_back(static_cast<std::size_t>(found - tensors.begin()));
  }
  inputs_.resize(tensors_.size());
}

nn::Graph BatchInputs::with_bytes(nn::Graph graph, const ops::Ops& ops, const std::vector<TensorSpec>& tensors) const {
  for (std::size_t i = 0; i < tensors_.size() && ops.converts_bytes(); ++i)
    if (const auto& numbers = tensors[tensors_[i]].bytes) graph.take_bytes(i, *numbers);
  return graph;
}

nn::Feed BatchInputs::feed(const data::Batch& batch) {
  bool stays = true;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffer& tensor = batch.tensors[tensors_[i]];
    inputs_[i] = tensor.data;
    stays = stays && tensor.kind == MemoryKind::pinned;
  }
  return {.samples = batch.samples.value, .inputs = inputs_, .stays = stays};
}

}  // namespace lockstep::trainer
