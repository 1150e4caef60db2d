// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/ops/format.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

using Convolution = ops::ConvolutionShape;
using BatchNorm = ops::BatchNormShape;
/// max(x, 0), element by element.
struct Relu {};
/// The largest element of each window.
struct MaxPool {
  ops::PoolShape window;
};
/// The mean of each window.
struct AveragePool {
  ops::PoolShape window;
};
/// Weights times the flattened input, plus a bias: `out_features` elements of each sample.
struct Linear {
  std::int64_t out_features = 1;
  ops::Activation activation = ops::Activation::none;
};
/// Sum of two results of equal shape: the end of a residual block.
struct Add {
  ops::Activation activation = ops::Activation::none;
};

using LayerKind = std::variant<Convolution, BatchNorm, Relu, MaxPool, AveragePool, Linear, Add>;

/// One node of the graph: what it computes and from whose results.
struct Layer {
  std::string name;  ///< unique, e.g. "layer2.0.conv1"; its tensors are "<name>.weight" and so on
  LayerKind kind;
  std::vector<int> inputs;  ///< indices of earlier layers, or `Network::input`
  ops::Shape output;        ///< per sample (batch 1)
};

/// A model's description: a directed acyclic graph of layers, in an order in which they can be computed.
/// A value; it holds no weights and knows no implementation.
class Network {
 public:
  /// Stands for the images where a layer's input is named.
  static constexpr int input = -1;

  /// @param image    extent of one image; its batch is ignored
  /// @param classes  logits per sample that the last layer must give
  /// @throws Error{invalid_argument} if a dimension or `classes` is not positive
  Network(std::string name, ops::Shape image, std::int64_t classes);

  /// Appends a layer and returns its index.
  /// @throws Error{invalid_argument} naming the layer, if its name is taken, an input is not an earlier layer, or the
  ///         inputs' number or shapes do not suit its kind
  int add(std::string name, LayerKind kind, std::vector<int> inputs);
  /// Appends a layer that reads the last one (the images, if it is the first).
  int add(std::string name, LayerKind kind);

  /// @throws Error{invalid_argument} unless the last layer gives `classes` logits and every other layer is used
  void check() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ops::Shape& image() const { return image_; }
  [[nodiscard]] std::int64_t classes() const { return classes_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  /// Extent per sample of a layer's result, or of the images for `input`.
  [[nodiscard]] const ops::Shape& shape(int layer) const;
  /// How many times each layer's result is read by other layers.
  [[nodiscard]] std::vector<int> consumers() const;

 private:
  std::string name_;
  ops::Shape image_;
  std::int64_t classes_;
  std::vector<Layer> layers_;
};

/// The same function with fewer passes over memory: each ReLU whose input is a convolution, batch norm, linear or add
/// that nobody else reads becomes that layer's activation.
Network fuse_activations(const Network& network);

}  // namespace lockstep::nn
