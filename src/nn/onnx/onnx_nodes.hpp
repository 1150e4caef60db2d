// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "nn/onnx/onnx.hpp"
#include "nn/onnx/onnx_graph.hpp"

namespace lockstep::nn {

/// Writes the nodes of a graph as nodes of ONNX. A linear layer makes a matrix there, N×features, and what reads it by
/// elements only keeps it as it is; other readers get N×features×1×1.
class OnnxNodes {
 public:
  /// All arguments outlive this.
  OnnxNodes(const Graph& graph, OnnxGraph& onnx, const WeightsOf& weights);

  /// Sets the name by which nodes read an input of the graph.
  void name(int value, std::string name) { names_[static_cast<std::size_t>(value)] = std::move(name); }
  /// Adds a node whose inputs have been added. @throws Error{unsupported} that names the node and its operator
  void add(const Node& node);
  /// Adds the outputs, as matrices where they have one row and one column.
  void add_outputs();

  // One of them for each operator. @return the name of the result, before an activation
  std::string operator()(const Convolution& op);
  std::string operator()(const TransposedConvolution& op);
  std::string operator()(const BatchNorm& op);
  std::string operator()(const FrozenBatchNorm& op);
  std::string operator()(const Relu& op);
  std::string operator()(const Pointwise& op);
  std::string operator()(const MaxPool& op);
  std::string operator()(const AveragePool& op);
  std::string operator()(const GlobalAveragePool& op);
  std::string operator()(const AdaptiveAveragePool& op);
  std::string operator()(const ChannelPool& op);
  std::string operator()(const Linear& op);
  std::string operator()(const Add& op);
  std::string operator()(const Multiply& op);
  std::string operator()(const Dropout& op);
  std::string operator()(const Concat& op);
  std::string operator()(const Slice& op);
  std::string operator()(const Reshape& op);
  std::string operator()(const Permute& op);
  std::string operator()(const Resize& op);
  std::string operator()(const AnchorDecode& op);
  std::string operator()(const Lstm& op);
  template <typename Other>
  std::string operator()(const Other& /*op*/) {
    refuse();
  }

 private:
  [[noreturn]] void refuse() const;
  [[nodiscard]] std::string final_name(int value) const;
  [[nodiscard]] const ops::Shape& shape(std::size_t input = 0) const;
  [[nodiscard]] const ops::Shape& result_shape() const { return graph_.shape(node_->output); }
  [[nodiscard]] const std::string& plain(std::size_t input = 0) const;
  std::string spatial(std::size_t input = 0);
  std::vector<std::string> elementwise();
  std::string weight(const TensorSlot& tensor);
  std::vector<std::string> with_parameters(std::string input);
  std::string result(const char* op, const std::vector<std::string>& inputs,
                     const std::vector<OnnxAttribute>& attributes = {});
  std::string activated(const std::string& input, Activation activation);
  std::string affine(const Pointwise& op, const std::string& input);
  std::string slice(const std::string& input, const std::string& name, std::int64_t axis, std::int64_t begin,
                    std::int64_t end);
  std::string reshape(const std::string& input, std::string name, const std::vector<std::int64_t>& extents);
  std::string decoded_centers(const AnchorDecode& op, const std::string& sigmoids);
  std::string decoded_extents(const AnchorDecode& op, const std::string& sigmoids);
  std::string gates(const Lstm& op, const char* what, const std::vector<std::size_t>& parameters,
                    const std::vector<std::int64_t>& extents);
  void add_channels_last(const Output& output);

  const Graph& graph_;
  OnnxGraph& onnx_;
  const WeightsOf& weights_;
  std::vector<std::string> names_;  // of each value
  std::vector<bool> flat_;          // whether the value is N×features
  std::set<std::string> stored_;    // tensors and results that the file has already and that several nodes read
  const Node* node_ = nullptr;      // that is being added
  std::string result_;              // the name of its result, before an activation
};

}  // namespace lockstep::nn
