// SPDX-License-Identifier: Apache-2.0
#include "ops/graph.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace lockstep::ops::test {

namespace {

/// Returns the weight of element `i` of the output in the objective.
double objective_weight(std::int64_t i) { return std::cos(static_cast<double>(i) + 0.5); }

/// Converts values from one format to another, and gradients back.
class Reformat final : public Kernel {
 public:
  Reformat(Ops& ops, const Format& from, const Format& to)
      : Kernel({.inputs = {from}, .output = to}), there_(ops.reorder(from, to)), back_(ops.reorder(to, from)) {}

 private:
  void forward(const Arguments& call) override { there_->run(Pass::forward, call); }
  void backward(const Arguments& call) override {
    const void* gradient = call.output_gradient;
    back_->run(Pass::forward, {.inputs = std::span(&gradient, 1), .output = call.input_gradients[0]});
  }

  std::unique_ptr<Kernel> there_;
  std::unique_ptr<Kernel> back_;
};

}  // namespace

Tensor::Tensor(std::int64_t count, DType dtype)
    : memory_(allocate_host({count * size_of(dtype)})), count_(count), dtype_(dtype) {}

double Tensor::get(std::int64_t i) const {
  return dtype_ == DType::float32 ? static_cast<double>(static_cast<const float*>(data())[i])
                                  : static_cast<const double*>(data())[i];
}

void Tensor::set(std::int64_t i, double value) {
  if (dtype_ == DType::float32) {
    static_cast<float*>(data())[i] = static_cast<float>(value);
  } else {
    static_cast<double*>(data())[i] = value;
  }
}

Values Tensor::values() const {
  Values result;
  for (std::int64_t i = 0; i < count_; ++i) result.push_back(get(i));
  return result;
}

void Tensor::assign(const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<std::int64_t>(i), values[i]);
}

void Tensor::fill(std::mt19937_64& random, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  // Values are rounded to float32, so that every implementation starts from the same ones.
  for (std::int64_t i = 0; i < count_; ++i) set(i, static_cast<double>(static_cast<float>(uniform(random))));
}

Graph::Graph(Ops& ops, DType dtype, const Shape& input, std::uint64_t seed) : ops_(ops), dtype_(dtype), random_(seed) {
  Node node;
  node.format = Format::plain(input, dtype);
  node.value = std::make_unique<Tensor>(input.count(), dtype);
  node.gradient = std::make_unique<Tensor>(input.count(), dtype);
  node.value->fill(random_, -1, 1);
  nodes_.push_back(std::move(node));
}

int Graph::convolution(int node, const Convolution& shape) { return append(shape, {node}); }
int Graph::batch_norm(int node, const BatchNorm& shape) { return append(shape, {node}); }
int Graph::relu(int node) { return append(Relu{}, {node}); }
int Graph::max_pool(int node, const MaxPool& pool) { return append(pool, {node}); }
int Graph::average_pool(int node, const AveragePool& pool) { return append(pool, {node}); }
int Graph::linear(int node, std::int64_t out_channels, Activation activation) {
  return append(Linear{.out_features = out_channels, .activation = activation}, {node});
}
int Graph::add(int a, int b, Activation activation) { return append(Add{activation}, {a, b}); }

int Graph::append(const Operator& op, std::vector<int> inputs) {
  std::vector<Format> formats;
  std::vector<Shape> shapes;
  for (const int input : inputs) {
    formats.push_back(format(input));
    shapes.push_back(format(input).shape);
  }
  const Signature signature = signature_of(op, shapes);
  std::unique_ptr<Kernel> kernel = ops_.make(op, formats);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in_format(inputs[i], kernel->traits().inputs[i]);
  Node node;
  node.format = kernel->traits().output;
  node.inputs = std::move(inputs);
  for (const OwnedTensor& parameter : signature.parameters) {
    node.parameters.push_back(parameters_.size());
    parameters_.push_back(std::make_unique<Tensor>(parameter.count(), dtype_));
    parameters_.back()->fill(random_, -0.5, 0.7);
    gradients_.push_back(std::make_unique<Tensor>(parameter.count(), dtype_));
    gradients_.back()->fill(random_, -1, 1);  // must be overwritten
  }
  for (const OwnedTensor& state : signature.state) {
    node.state.push_back(state_.size());
    state_.push_back(std::make_unique<Tensor>(state.count(), dtype_));
    state_.back()->fill(random_, 0.5, 1);
  }
  node.value = allocate(node.format);
  node.gradient = allocate(node.format);
  node.saved = std::make_unique<Tensor>(kernel->traits().saved);
  node.op = std::move(kernel);
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int Graph::in_format(int node, const Format& wanted) {
  if (format(node).native == wanted.native) return node;
  Node copy;
  copy.op = std::make_unique<Reformat>(ops_, format(node), wanted);
  copy.format = wanted;
  copy.inputs = {node};
  copy.value = allocate(wanted);
  copy.gradient = allocate(wanted);
  copy.saved = std::make_unique<Tensor>(Bytes{0});
  nodes_.push_back(std::move(copy));
  return static_cast<int>(nodes_.size()) - 1;
}

std::unique_ptr<Tensor> Graph::allocate(const Format& format) const {
  if (format.native == nullptr) return std::make_unique<Tensor>(format.shape.count(), dtype_);
  return std::make_unique<Tensor>(format.bytes);
}

void Graph::forward(bool training) {
  for (Node& node : nodes_) {
    if (node.op == nullptr) continue;
    std::vector<const void*> inputs;
    std::vector<const void*> parameters;
    std::vector<void*> state;
    for (const int i : node.inputs) inputs.push_back(nodes_[static_cast<std::size_t>(i)].value->data());
    for (const std::size_t i : node.parameters) parameters.push_back(parameters_[i]->data());
    for (const std::size_t i : node.state) state.push_back(state_[i]->data());
    node.op->run(training ? Pass::forward : Pass::infer, {.inputs = inputs,
                                                          .parameters = parameters,
                                                          .state = state,
                                                          .output = node.value->data(),
                                                          .saved = node.saved->data()});
  }
}

double Graph::objective() const {
  double sum = 0;
  const Values last = output();
  for (std::size_t i = 0; i < last.size(); ++i) sum += last[i] * objective_weight(static_cast<std::int64_t>(i));
  return sum;
}

void Graph::backward() {
  for (Node& node : nodes_) node.has_gradient = false;
  Tensor& last = *nodes_.back().gradient;
  for (std::int64_t i = 0; i < last.count(); ++i) last.set(i, objective_weight(i));
  for (auto node = nodes_.rbegin(); node->op != nullptr; ++node) backward(*node);
}

void Graph::backward(Node& node) {
  std::vector<const void*> inputs;
  std::vector<const void*> parameters;
  std::vector<void*> parameter_gradients;
  std::vector<std::unique_ptr<Tensor>> parts;
  std::vector<void*> input_gradients;
  for (const int i : node.inputs) {
    inputs.push_back(nodes_[static_cast<std::size_t>(i)].value->data());
    parts.push_back(allocate(format(i)));
    input_gradients.push_back(parts.back()->data());
  }
  for (const std::size_t i : node.parameters) {
    parameters.push_back(parameters_[i]->data());
    parameter_gradients.push_back(gradients_[i]->data());
  }
  node.op->run(Pass::backward, {.inputs = inputs,
                                .parameters = parameters,
                                .output = node.value->data(),
                                .saved = node.saved->data(),
                                .output_gradient = node.gradient->data(),
                                .input_gradients = input_gradients,
                                .parameter_gradients = parameter_gradients});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    accumulate(nodes_[static_cast<std::size_t>(node.inputs[i])], std::move(parts[i]));
  }
}

void Graph::accumulate(Node& node, std::unique_ptr<Tensor> part) {
  if (node.has_gradient) {
    const std::vector<const void*> inputs{node.gradient->data(), part->data()};
    auto sum = allocate(node.format);
    ops_.make(Add{}, std::vector{node.format, node.format})
        ->run(Pass::forward, {.inputs = inputs, .output = sum->data()});
    part = std::move(sum);
  }
  node.gradient = std::move(part);
  node.has_gradient = true;
}

Values Graph::output(int node) const {
  const Node& wanted = nodes_.at(static_cast<std::size_t>(node));
  if (wanted.format.native != nullptr) throw std::logic_error("only plain outputs can be read");
  return wanted.value->values();
}

}  // namespace lockstep::ops::test
