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

using namespace ops::operators;

/// A value that nodes read: an input of the graph or the output of a node.
struct Value {
  std::string name;
  ops::Shape shape;  ///< extent of one sample (batch 1)
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

/// The divisor of a loss.
enum class Normalizer {
  samples,  ///< number of samples of the global batch
  weight,   ///< the weight of the loss, which depends on targets only, summed over all ranks before the first gradient
            ///< of the step
};

/// A term of the objective: coefficient · loss ÷ normalizer, both summed over all ranks. A term whose normalizer is 0
/// contributes zero, with gradients of zero; this avoids 0/0.
struct LossTerm {
  int node = -1;
  double coefficient = 1;
  Normalizer normalizer = Normalizer::samples;
  /// Whether only training computes it, as that of an auxiliary head. Its sums are zero in evaluations, where it
  /// contributes zero, and so are layers left out that nothing else needs.
  bool auxiliary = false;
};

/// A value that a prediction gives, for metrics and for users. Nodes that only outputs depend on, such as the decoding
/// of boxes, run in evaluations and predictions only.
struct Output {
  /// How exported models give an output, for programs that expect another form.
  struct Exported {
    std::string name = {};       ///< empty: that of the output
    bool channels_last = false;  ///< N×T×C in place of N×C×1×T
  };
  std::string name;
  int value = -1;
  Exported exported = {};

  [[nodiscard]] const std::string& exported_name() const { return exported.name.empty() ? name : exported.name; }
};

/// Numbers that belong to a model and that no step changes, such as the anchors of a detector. They are saved with the
/// weights.
struct Constant {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< row-major
  friend bool operator==(const Constant&, const Constant&) = default;
};

/// The description of a model: operators over named inputs, in an order in which they can be computed, and the loss
/// terms. It is a value without weights, independent of any compute library. Parameters belong to the graph, and
/// several nodes may share them.
class Graph {
 public:
  /// @param name  name of the model, for messages and checkpoints
  explicit Graph(std::string name) : name_(std::move(name)) {}

  /// Adds an input, a tensor of the batch. @return its value
  /// @throws Error{invalid_argument} if the name is taken or an extent not positive
  int input(const TensorSpec& spec);
  /// Lets an input be bytes (`TensorSpec::bytes`), which the compute library converts, unless a loss reads it, because
  /// losses read their targets as they are. @return whether it now is
  /// @pre the input is real, and has as many channels as there are means and deviations
  bool take_bytes(std::size_t input, const Normalization& numbers);
  /// Appends a node. @return its output value
  /// @throws Error{invalid_argument} naming the node, if its name is taken, an input does not exist, or the operator
  /// cannot take the inputs
  int add(std::string name, ops::Operator op, std::vector<int> inputs);
  /// Appends a node that reads the last value.
  int add(std::string name, ops::Operator op);
  /// Appends a node with the operator, the parameters and the state of an earlier one.
  /// @throws as `add`, and if there is no node `as` or its parameters do not fit these inputs
  int add_shared(std::string name, std::string_view as, std::vector<int> inputs);
  /// Adds numbers to the initial values of a parameter, one to each element.
  /// @throws Error{invalid_argument} if there is no such parameter, or if it has another number of elements
  void add_to_initial(std::string_view parameter, std::vector<double> numbers);
  /// Adds numbers that are saved with the weights.
  /// @throws Error{invalid_argument} if the name is taken by another tensor, or there are not as many as the shape says
  void constant(Constant numbers);
  /// Appends a loss term; no node reads its value.
  /// @throws as `add`, and if the operator is not a loss
  void loss(std::string name, ops::Operator op, std::vector<int> inputs, double coefficient = 1,
            Normalizer normalizer = Normalizer::samples);
  /// Appends a loss term that only training computes. @throws as `loss`
  void auxiliary_loss(std::string name, ops::Operator op, std::vector<int> inputs, double coefficient = 1,
                      Normalizer normalizer = Normalizer::samples);

  /// Declares that predictions give a value. Layers and losses may read it as well; if no loss depends on it, steps do
  /// not compute it.
  /// @throws Error{invalid_argument} if the name is taken, no node computes the value, or a value that is no sequence
  /// N×C×1×T is to be exported with the channels last
  void output(std::string name, int value, Output::Exported exported = {});

  /// @throws Error{invalid_argument} unless there is a loss, every value contributes to a loss or an output, every
  /// parameter contributes to a loss, and all operators on the way to a loss have a backward pass
  void check() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<TensorSpec>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<LossTerm>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  /// Names as in PyTorch's `named_parameters()` of the same model, in the order of the nodes that have them.
  [[nodiscard]] const Layout& parameters() const { return parameters_; }
  /// Running mean and variance of every batch norm; empty without batch norms.
  [[nodiscard]] const Layout& state() const { return state_; }
  /// Initial values of the parameters and of the state.
  [[nodiscard]] std::span<const ops::OwnedTensor> initial_parameters() const { return initial_parameters_; }
  [[nodiscard]] std::span<const ops::OwnedTensor> initial_state() const { return initial_state_; }
  [[nodiscard]] const std::vector<Constant>& constants() const { return constants_; }
  /// The last value.
  [[nodiscard]] int last() const { return static_cast<int>(values_.size()) - 1; }
  /// Extent per sample of a value.
  [[nodiscard]] const ops::Shape& shape(int value) const { return values_.at(static_cast<std::size_t>(value)).shape; }
  /// Number of readers of each value.
  [[nodiscard]] std::vector<int> readers() const;
  /// For each node whether a loss depends on it. Training steps run these nodes only; predictions run the others, too.
  [[nodiscard]] std::vector<bool> contributes_to_loss() const;
  /// For each node whether an output or a loss that is not auxiliary depends on it. Evaluations and predictions run
  /// these nodes only.
  [[nodiscard]] std::vector<bool> contributes_to_evaluation() const;
  /// The index into `inputs()` if the value is an input, otherwise −1.
  [[nodiscard]] int input_of(int value) const { return input_of_.at(static_cast<std::size_t>(value)); }

 private:
  friend class Absorption;
  friend Graph pool_before_relu(const Graph& graph);
  friend Graph synchronize_batch_norms(const Graph& graph);
  friend Graph normalize_residuals(const Graph& graph);
  friend Graph sum_in_convolutions(const Graph& graph);
  friend Graph smooth_labels(const Graph& graph, double fraction);
  [[nodiscard]] std::vector<bool> contributes(std::vector<bool> is_read, std::vector<bool> is_run) const;
  int append(std::string name, ops::Operator op, std::vector<int> inputs, const Node* shared);
  ops::Signature signature_of(const std::string& name, const ops::Operator& op, const std::vector<int>& inputs) const;
  int append_value(Value value, int input);

  std::string name_;
  std::vector<TensorSpec> inputs_;
  std::vector<Value> values_;
  std::vector<int> input_of_;
  std::vector<Node> nodes_;
  std::vector<LossTerm> losses_;
  std::vector<Output> outputs_;
  Layout parameters_;
  Layout state_;
  std::vector<ops::OwnedTensor> initial_parameters_;
  std::vector<ops::OwnedTensor> initial_state_;
  std::vector<Constant> constants_;
};

/// Optimization passes over a graph, which do not change its function. Each can be disabled.
struct OptimizationPasses {
  bool fuse = true;          ///< fuses additions and activations into neighboring operators
  bool recompute = true;     ///< recomputes cheap results for the backward pass instead of storing them
  bool reuse_memory = true;  ///< lets activations that are not alive at the same time share memory
  bool capture = true;       ///< captures a step as one graph of work, where the device can, and launches it again

  /// Names of the passes: "fuse", "recompute", "reuse-memory", "capture".
  static std::vector<std::string_view> names();
  /// Disables a pass. @throws Error{invalid_argument} for an unknown name, with the nearest one
  void disable(const std::string& name);
};

/// Fuses additions into batch norms: an addition directly after a batch norm whose output nobody else reads becomes the
/// residual input of that batch norm. The function stays the same, with fewer passes over memory.
Graph fuse_additions(const Graph& graph);
/// Moves a ReLU behind the max pool that is its only reader, if the pool's windows do not overlap. Function and
/// gradients stay the same to the last bit, and the ReLU has fewer elements.
Graph pool_before_relu(const Graph& graph);
/// Fuses activations: a ReLU after a convolution, batch norm, linear layer, addition or max pool whose output nobody
/// else reads becomes the activation of that operator. The function stays the same, with fewer passes over memory.
Graph fuse_activations(const Graph& graph);
/// Merges batch norms: one that only a batch norm's residual input reads becomes a part of that operator, if the
/// compute library can (`ops::Ops::fuses_batch_norms`). The normalized shortcut of a residual block is then never
/// stored. Results and gradients stay the same to the last bit.
Graph normalize_residuals(const Graph& graph);
/// Fuses max pools into the batch norms whose only readers they are, where `BatchNorm::pool` allows it and the compute
/// library can (`ops::Ops::fuses_batch_norms`). The normalized values before the pool are then never stored. Results
/// and gradients stay the same to the last bit.
Graph pool_in_batch_norms(const Graph& graph);
/// Lets each convolution without bias and activation that a batch norm reads give that batch norm its statistics, if
/// the compute library can (`ops::Ops::sums_in_convolutions`). The library may then make the sums while it has the
/// result in registers. A batch norm of two inputs has the statistics of both, or of neither.
Graph sum_in_convolutions(const Graph& graph);
/// Makes every batch norm use the statistics of the global batch (SyncBN).
Graph synchronize_batch_norms(const Graph& graph);
/// Sets the label smoothing of every cross-entropy, and of the classes of detectors with anchors, to `fraction`, from 0
/// to 1.
/// @throws Error{invalid_argument} if the model has none
Graph smooth_labels(const Graph& graph, double fraction);

}  // namespace lockstep::nn
