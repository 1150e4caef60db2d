// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/layout.hpp"
#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/ops/operators.hpp"

namespace lockstep::nn {

using ops::Activation;
using ops::AdaptiveAveragePool;
using ops::Add;
using ops::AveragePool;
using ops::Axis;
using ops::BatchNorm;
using ops::BinaryCrossEntropy;
using ops::Concat;
using ops::Convolution;
using ops::CrossEntropy;
using ops::Ctc;
using ops::Custom;
using ops::Dice;
using ops::Dropout;
using ops::Embedding;
using ops::FrozenBatchNorm;
using ops::Giou;
using ops::GlobalAveragePool;
using ops::GroupNorm;
using ops::Interpolation;
using ops::LayerNorm;
using ops::Linear;
using ops::Lstm;
using ops::MaxPool;
using ops::Multiply;
using ops::Permute;
using ops::Pointwise;
using ops::Relu;
using ops::Reshape;
using ops::Resize;
using ops::Slice;
using ops::SmoothL1;
using ops::SoftCrossEntropy;
using ops::TransposedConvolution;

/// What nodes read: an input, or what a node gives.
struct Value {
  std::string name;
  ops::Shape shape;  ///< of one sample (batch 1)
  Content content = Content::real;
  int producer = -1;  ///< the node, or −1 for an input
};

/// An operator with its operands. Numbers are indices into the graph's lists.
struct Node {
  std::string name;  ///< unique, e.g. "layer2.0.conv1"; its tensors are "<name>.weight" and so on
  ops::Operator op;
  std::vector<int> inputs;  ///< values
  int output = -1;          ///< value
  std::vector<int> parameters;
  std::vector<int> state;
};

/// What a loss is divided by.
enum class Normalizer {
  samples,  ///< of the step, over all ranks
  weight,   ///< what the loss says it weighs, by targets alone, summed over all ranks before the step's first gradient
};

/// A part of what is minimized: coefficient · loss ÷ normalizer, both summed over all ranks. A sum without weight
/// counts for nothing, and gives gradients of zero.
struct LossTerm {
  int node = -1;
  double coefficient = 1;
  Normalizer normalizer = Normalizer::samples;
};

/// A model's description: operators over named inputs, in an order in which they can be computed, and what is to be
/// minimized. A value; it holds no weights and knows no implementation. Parameters belong to the graph: several nodes
/// may use the same.
class Graph {
 public:
  /// @param name  of the model, for messages and snapshots
  explicit Graph(std::string name) : name_(std::move(name)) {}

  /// A tensor of the batch, and the value that it is.
  /// @throws Error{invalid_argument} if the name is taken or an extent not positive
  int input(const TensorSpec& spec);
  /// Appends a node. @return the value that it gives
  /// @throws Error{invalid_argument} naming the node, if its name is taken, an input is not there, or the inputs do not
  ///         suit the operator
  int add(std::string name, ops::Operator op, std::vector<int> inputs);
  /// Appends a node that reads the value that was made last.
  int add(std::string name, ops::Operator op);
  /// Appends a node with the operator, the parameters and the state of an earlier one.
  /// @throws as `add`, and if there is no node `as` or its parameters do not suit these inputs
  int add_shared(std::string name, std::string_view as, std::vector<int> inputs);
  /// Appends a loss, which nobody reads.
  /// @throws as `add`, and if the operator is not a loss
  void loss(std::string name, ops::Operator op, std::vector<int> inputs, double coefficient = 1,
            Normalizer normalizer = Normalizer::samples);

  /// @throws Error{invalid_argument} unless there is a loss and every value and parameter leads to one
  void check() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<TensorSpec>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<LossTerm>& losses() const { return losses_; }
  /// Names and order as in PyTorch's `named_parameters()` of the same model.
  [[nodiscard]] const Layout& parameters() const { return parameters_; }
  /// Running mean and variance of every batch norm; empty where there is none.
  [[nodiscard]] const Layout& state() const { return state_; }
  /// How each of them begins.
  [[nodiscard]] std::span<const ops::OwnedTensor> initial_parameters() const { return initial_parameters_; }
  [[nodiscard]] std::span<const ops::OwnedTensor> initial_state() const { return initial_state_; }
  /// The value that was made last.
  [[nodiscard]] int last() const { return static_cast<int>(values_.size()) - 1; }
  /// Extent per sample of a value.
  [[nodiscard]] const ops::Shape& shape(int value) const { return values_.at(static_cast<std::size_t>(value)).shape; }
  /// How many times each value is read.
  [[nodiscard]] std::vector<int> readers() const;
  /// Which value is which input: the index into `inputs()`, or −1.
  [[nodiscard]] int input_of(int value) const { return input_of_.at(static_cast<std::size_t>(value)); }

 private:
  friend class Absorption;
  friend Graph pool_before_relu(const Graph& graph);
  friend Graph synchronize_batch_norms(const Graph& graph);
  int append(std::string name, ops::Operator op, std::vector<int> inputs, const Node* shared);
  ops::Signature signature_of(const std::string& name, const ops::Operator& op, const std::vector<int>& inputs) const;
  int append_value(Value value, int input);

  std::string name_;
  std::vector<TensorSpec> inputs_;
  std::vector<Value> values_;
  std::vector<int> input_of_;
  std::vector<Node> nodes_;
  std::vector<LossTerm> losses_;
  Layout parameters_;
  Layout state_;
  std::vector<ops::OwnedTensor> initial_parameters_;
  std::vector<ops::OwnedTensor> initial_state_;
};

/// The same function with fewer passes over memory: each sum right behind a batch norm that gives one of its summands,
/// which nobody else reads, becomes that batch norm's second input.
Graph fuse_additions(const Graph& graph);
/// The same function, bit for bit, and its gradients: each ReLU that only a max pool reads, whose windows lie beside
/// each other, comes behind it, where there is less to do.
Graph pool_before_relu(const Graph& graph);
/// The same function with fewer passes over memory: each ReLU whose input is a convolution, batch norm, linear, add or
/// max pool that nobody else reads becomes that operator's activation.
Graph fuse_activations(const Graph& graph);
/// With statistics over all ranks' parts of a batch in every batch norm.
Graph synchronize_batch_norms(const Graph& graph);

}  // namespace lockstep::nn
