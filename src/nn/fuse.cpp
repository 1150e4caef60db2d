// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <variant>
#include <vector>

#include "lockstep/nn/network.hpp"

namespace lockstep::nn {
namespace {

/// The layer's own activation, or null for kinds that have none.
ops::Activation* activation_of(LayerKind& kind) {
  return std::visit(
      [](auto& layer) -> ops::Activation* {
        if constexpr (requires { layer.activation; }) {
          return &layer.activation;
        } else {
          return nullptr;
        }
      },
      kind);
}

}  // namespace

Network fuse_activations(const Network& network) {
  std::vector<Layer> layers = network.layers();
  const std::vector<int> readers = network.consumers();
  Network fused(network.name(), network.image(), network.classes());
  std::vector<int> absorbed_by(layers.size(), Network::input);  // the layer that a ReLU has become part of
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int source = layers[i].inputs.front();
    if (!std::holds_alternative<Relu>(layers[i].kind) || source == Network::input) continue;
    const auto producer = static_cast<std::size_t>(source);
    ops::Activation* activation = activation_of(layers[producer].kind);
    if (activation == nullptr || readers[producer] != 1) continue;
    *activation = ops::Activation::relu;
    absorbed_by[i] = source;
  }
  std::vector<int> new_index(layers.size());
  const auto renumbered = [&](int old) {
    return old == Network::input ? old : new_index[static_cast<std::size_t>(old)];
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (absorbed_by[i] != Network::input) {
      new_index[i] = renumbered(absorbed_by[i]);
      continue;
    }
    for (int& index : layers[i].inputs) index = renumbered(index);
    new_index[i] = fused.add(layers[i].name, layers[i].kind, layers[i].inputs);
  }
  return fused;
}

}  // namespace lockstep::nn
