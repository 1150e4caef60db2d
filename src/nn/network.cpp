// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/network.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

std::string text(const ops::Shape& shape) {
  return std::to_string(shape.channels) + "×" + std::to_string(shape.height) + "×" + std::to_string(shape.width);
}

[[noreturn]] void refuse(const std::string& layer, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "layer '" + layer + "' " + why);
}

/// The extent of a layer's result from those of its inputs; one overload for each kind of layer.
struct ResultShape {
  const std::string& name;
  const std::vector<ops::Shape>& inputs;

  ops::Shape operator()(const Convolution& shape) const {
    if (shape.out_channels < 1) refuse(name, "has " + std::to_string(shape.out_channels) + " output channels");
    return windows(shape.kernel, shape.stride, shape.padding, shape.out_channels);
  }
  ops::Shape operator()(const BatchNorm&) const { return only_input(); }
  ops::Shape operator()(const Relu&) const { return only_input(); }
  ops::Shape operator()(const MaxPool& pool) const { return pooled(pool.window); }
  ops::Shape operator()(const AveragePool& pool) const { return pooled(pool.window); }
  ops::Shape operator()(const Linear& linear) const {
    only_input();
    if (linear.out_features < 1) refuse(name, "has " + std::to_string(linear.out_features) + " output features");
    return {1, linear.out_features, 1, 1};
  }
  ops::Shape operator()(const Add&) const {
    if (inputs.size() != 2) refuse(name, "adds two results, not " + std::to_string(inputs.size()));
    if (inputs[0] != inputs[1]) refuse(name, "cannot add " + text(inputs[0]) + " and " + text(inputs[1]));
    return inputs[0];
  }

 private:
  const ops::Shape& only_input() const {
    if (inputs.size() != 1) refuse(name, "takes one input, not " + std::to_string(inputs.size()));
    return inputs[0];
  }
  ops::Shape pooled(const ops::PoolShape& window) const {
    return windows(window.kernel, window.stride, 0, only_input().channels);
  }
  ops::Shape windows(std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t channels) const {
    const ops::Shape& in = only_input();
    if (kernel < 1 || stride < 1 || padding < 0) refuse(name, "needs kernel and stride ≥ 1 and padding ≥ 0");
    const std::int64_t shorter = std::min(in.height, in.width) + 2 * padding;
    if (shorter < kernel) {
      refuse(name, "has a window of " + std::to_string(kernel) + "×" + std::to_string(kernel) +
                       ", too large for its input of " + text(in));
    }
    const auto extent = [&](std::int64_t side) { return (side + 2 * padding - kernel) / stride + 1; };
    return {1, channels, extent(in.height), extent(in.width)};
  }
};

}  // namespace

Network::Network(std::string name, ops::Shape image, std::int64_t classes)
    : name_(std::move(name)), image_{1, image.channels, image.height, image.width}, classes_(classes) {
  if (image.channels < 1 || image.height < 1 || image.width < 1) {
    throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' cannot take images of " + text(image));
  }
  if (classes < 1) {
    throw Error(ErrorCode::invalid_argument,
                "model '" + name_ + "' cannot tell " + std::to_string(classes) + " classes");
  }
}

int Network::add(std::string name, LayerKind kind, std::vector<int> inputs) {
  const int index = static_cast<int>(layers_.size());
  const auto same_name = [&name](const Layer& layer) { return layer.name == name; };
  if (std::any_of(layers_.begin(), layers_.end(), same_name)) refuse(name, "exists already");
  std::vector<ops::Shape> shapes;
  for (const int input_index : inputs) {
    if (input_index < input || input_index >= index) {
      refuse(name, "reads layer " + std::to_string(input_index) + ", which does not come before it");
    }
    shapes.push_back(shape(input_index));
  }
  const ops::Shape output = std::visit(ResultShape{name, shapes}, kind);
  layers_.push_back({std::move(name), kind, std::move(inputs), output});
  return index;
}

int Network::add(std::string name, LayerKind kind) {
  return add(std::move(name), kind, {static_cast<int>(layers_.size()) - 1});
}

void Network::check() const {
  if (layers_.empty()) throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' has no layers");
  const ops::Shape logits{1, classes_, 1, 1};
  if (layers_.back().output != logits) {
    refuse(layers_.back().name,
           "is the last and must give " + text(logits) + " logits, but gives " + text(layers_.back().output));
  }
  const std::vector<int> readers = consumers();
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    if (readers[i] == 0) refuse(layers_[i].name, "is not the last, and no layer reads its result");
  }
}

const ops::Shape& Network::shape(int layer) const {
  return layer == input ? image_ : layers_.at(static_cast<std::size_t>(layer)).output;
}

std::vector<int> Network::consumers() const {
  std::vector<int> count(layers_.size());
  for (const Layer& layer : layers_) {
    for (const int index : layer.inputs) {
      if (index != input) ++count[static_cast<std::size_t>(index)];
    }
  }
  return count;
}

}  // namespace lockstep::nn
