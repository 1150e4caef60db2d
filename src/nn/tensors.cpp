// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/tensors.hpp"

#include <string>
#include <type_traits>
#include <variant>

namespace lockstep::nn {
namespace {

/// Adds one layer's tensors to the layouts; one overload for each kind that has any.
struct LayerLayout {
  Tensors& tensors;
  const std::string& name;
  const ops::Shape& in;

  LayerTensors operator()(const Convolution& shape) const {
    LayerTensors added;
    added.parameters.push_back(
        tensors.parameters.add(name + ".weight", {shape.out_channels, in.channels, shape.kernel, shape.kernel}));
    if (shape.bias) added.parameters.push_back(tensors.parameters.add(name + ".bias", {shape.out_channels}));
    return added;
  }
  LayerTensors operator()(const Linear& linear) const {
    const std::int64_t in_features = in.channels * in.height * in.width;
    return {{tensors.parameters.add(name + ".weight", {linear.out_features, in_features}),
             tensors.parameters.add(name + ".bias", {linear.out_features})},
            {}};
  }
  LayerTensors operator()(const BatchNorm&) const {
    return {{tensors.parameters.add(name + ".weight", {in.channels}),
             tensors.parameters.add(name + ".bias", {in.channels})},
            {tensors.state.add(name + ".running_mean", {in.channels}),
             tensors.state.add(name + ".running_var", {in.channels})}};
  }
  template <typename WithoutTensors>
  LayerTensors operator()(const WithoutTensors&) const {
    return {};
  }
};

}  // namespace

Tensors lay_out(const Network& network) {
  Tensors tensors;
  for (const Layer& layer : network.layers()) {
    const LayerLayout add{tensors, layer.name, network.shape(layer.inputs.front())};
    tensors.of_layer.push_back(std::visit(add, layer.kind));
  }
  return tensors;
}

}  // namespace lockstep::nn
