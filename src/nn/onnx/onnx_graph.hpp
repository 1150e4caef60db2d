// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/protobuf.hpp"

namespace lockstep::nn {

/// The dimensions of a tensor; 0 is the batch, whose size is free.
using OnnxDims = std::vector<std::int64_t>;

/// An attribute of an operator.
using OnnxAttribute = std::pair<const char*, std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>>;

/// TensorProto.DataType.
enum OnnxType : std::int64_t { onnx_float = 1, onnx_int32 = 6, onnx_int64 = 7 };

/// A GraphProto that is written node by node. Field numbers are those of onnx/onnx.proto.
class OnnxGraph {
 public:
  explicit OnnxGraph(std::string_view name) { graph_.text(2, name); }

  /// Adds an input in float32, or a number in int32 for each sample.
  void input(const std::string& name, const OnnxDims& dims) { graph_.message(11, value_info(name, dims, onnx_float)); }
  void input_of_integers(const std::string& name) { graph_.message(11, value_info(name, {0}, onnx_int32)); }
  void output(const std::string& name, const OnnxDims& dims) { graph_.message(12, value_info(name, dims, onnx_float)); }
  /// Adds an operator, whose only result has the name of the node. Operators are in an order in which they can be
  /// computed.
  /// @return the name
  std::string node(const char* op, const std::vector<std::string>& inputs, std::string name,
                   const std::vector<OnnxAttribute>& attributes = {});
  /// Adds a constant tensor in float32 or int64. @return its name
  std::string constant(std::string name, const OnnxDims& dims, std::span<const float> elements);
  std::string constant(std::string name, std::span<const std::int64_t> elements);

  [[nodiscard]] const ProtobufMessage& message() const { return graph_; }

 private:
  static ProtobufMessage value_info(const std::string& name, const OnnxDims& dims, OnnxType type);
  ProtobufMessage graph_;
};

}  // namespace lockstep::nn
