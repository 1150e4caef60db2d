// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::test {

using Values = std::vector<double>;

/// The parameter of a suite that runs over several implementations.
struct Implementation {
  std::string name;
  std::unique_ptr<Ops> (*make)();
};

/// A tensor of float32 or float64, read and written as doubles.
class Tensor {
 public:
  Tensor(std::int64_t count, DType dtype);
  explicit Tensor(Bytes bytes) : memory_(allocate_host(bytes)), count_(0), dtype_(DType::uint8) {}

  [[nodiscard]] void* data() const { return memory_.data(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Bytes bytes() const { return memory_.bytes(); }
  [[nodiscard]] double get(std::int64_t i) const;
  void set(std::int64_t i, double value);
  [[nodiscard]] Values values() const;
  void fill(std::mt19937_64& random, double low, double high);
  void assign(const Values& values);

 private:
  Allocation memory_;
  std::int64_t count_;
  DType dtype_;
};

/// A small network on one implementation; node 0 is its plain input. Its observables are plain, whatever formats are
/// used inside, so that two implementations can be compared. They are the last node's output (which must be plain),
/// batch norm's running statistics, and gradients with respect to the input and every parameter. The gradients are
/// those of the output's scalar product with fixed weights. Values depend on the seed and the order of construction,
/// but not on the implementation.
class Graph {
 public:
  Graph(Ops& ops, DType dtype, const Shape& input, std::uint64_t seed = 1);

  int convolution(int node, const Convolution& shape);
  int batch_norm(int node, const BatchNorm& shape);
  int relu(int node);
  int max_pool(int node, const MaxPool& pool);
  int average_pool(int node, const AveragePool& pool);
  int linear(int node, std::int64_t out_channels, Activation activation = Activation::none);
  int add(int a, int b, Activation activation);

  void forward(bool training = true);
  void backward();
  /// Returns Σ output·weight of the last node, after `forward`.
  [[nodiscard]] double objective() const;

  [[nodiscard]] const Format& format(int node) const { return nodes_.at(static_cast<std::size_t>(node)).format; }
  /// Returns a node's output. @pre its format is plain
  [[nodiscard]] Values output(int node) const;
  [[nodiscard]] Values output() const { return output(static_cast<int>(nodes_.size()) - 1); }
  [[nodiscard]] Values input_gradient() const { return nodes_.front().gradient->values(); }
  Tensor& input() { return *nodes_.front().value; }
  std::vector<std::unique_ptr<Tensor>>& parameters() { return parameters_; }
  std::vector<std::unique_ptr<Tensor>>& gradients() { return gradients_; }
  std::vector<std::unique_ptr<Tensor>>& state() { return state_; }

 private:
  struct Node {
    std::unique_ptr<Kernel> op;
    Format format;
    std::vector<int> inputs;
    std::vector<std::size_t> parameters;
    std::vector<std::size_t> state;
    std::unique_ptr<Tensor> value;
    std::unique_ptr<Tensor> gradient;
    std::unique_ptr<Tensor> saved;
    bool has_gradient = false;
  };
  int append(const Operator& op, std::vector<int> inputs);
  /// Returns the node, or a copy of it in the wanted format.
  int in_format(int node, const Format& wanted);
  std::unique_ptr<Tensor> allocate(const Format& format) const;
  void backward(Node& node);
  void accumulate(Node& node, std::unique_ptr<Tensor> part);

  Ops& ops_;
  DType dtype_;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Tensor>> parameters_;
  std::vector<std::unique_ptr<Tensor>> gradients_;
  std::vector<std::unique_ptr<Tensor>> state_;
};

}  // namespace lockstep::ops::test
