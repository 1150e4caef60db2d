// SPDX-License-Identifier: Apache-2.0
#include "nn/onnx/onnx_graph.hpp"

#include <bit>
#include <type_traits>

namespace lockstep::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX has tensors in little-endian");

ProtobufMessage attribute_proto(const OnnxAttribute& attribute) {
  ProtobufMessage proto;
  proto.text(1, attribute.first);
  std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        constexpr std::int64_t type_float = 1;
        constexpr std::int64_t type_int = 2;
        constexpr std::int64_t type_string = 3;
        constexpr std::int64_t type_ints = 7;
        if constexpr (std::is_same_v<Value, float>) {
          proto.real(2, value).integer(20, type_float);
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          proto.integer(3, value).integer(20, type_int);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          proto.text(4, value).integer(20, type_string);
        } else {
          for (const std::int64_t one : value) proto.integer(8, one);
          proto.integer(20, type_ints);
        }
      },
      attribute.second);
  return proto;
}

template <typename Element>
ProtobufMessage tensor_proto(const std::string& name, const OnnxDims& dims, OnnxType type,
                             std::span<const Element> elements) {
  ProtobufMessage proto;
  for (const std::int64_t dim : dims) proto.integer(1, dim);
  proto.integer(2, type).text(8, name);
  return proto.text(9, {reinterpret_cast<const char*>(elements.data()), elements.size_bytes()});
}

}  // namespace

std::string OnnxGraph::node(const char* op, const std::vector<std::string>& inputs, std::string name,
                            const std::vector<OnnxAttribute>& attributes) {
  ProtobufMessage proto;
  for (const std::string& input : inputs) proto.text(1, input);
  proto.text(2, name).text(3, name).text(4, op);
  for (const OnnxAttribute& attribute : attributes) proto.message(5, attribute_proto(attribute));
  graph_.message(1, proto);
  return name;
}

std::string OnnxGraph::constant(std::string name, const OnnxDims& dims, std::span<const float> elements) {
  graph_.message(5, tensor_proto(name, dims, onnx_float, elements));
  return name;
}

std::string OnnxGraph::constant(std::string name, std::span<const std::int64_t> elements) {
  graph_.message(5, tensor_proto(name, {static_cast<std::int64_t>(elements.size())}, onnx_int64, elements));
  return name;
}

ProtobufMessage OnnxGraph::value_info(const std::string& name, const OnnxDims& dims, OnnxType type) {
  ProtobufMessage shape;
  for (const std::int64_t dim : dims) {
    ProtobufMessage one;
    dim == 0 ? one.text(2, "batch") : one.integer(1, dim);
    shape.message(1, one);
  }
  ProtobufMessage tensor;
  tensor.message(1, ProtobufMessage().integer(1, type).message(2, shape));
  return ProtobufMessage().text(1, name).message(2, tensor);
}

}  // namespace lockstep::nn
