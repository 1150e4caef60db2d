// SPDX-License-Identifier: Apache-2.0
#include "nn/onnx/onnx_nodes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <variant>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

using Ints = std::vector<std::int64_t>;

Ints ints(const Pair& pair) { return {pair.height, pair.width}; }
/// Padding at the top, left, bottom and right.
Ints pads(const Pair& padding) { return {padding.height, padding.width, padding.height, padding.width}; }

/// Axes are numbered behind the batch.
std::int64_t axis_of(Axis axis) { return static_cast<std::int64_t>(axis) + 1; }

Activation activation_of(const ops::Operator& op) {
  return std::visit(
      [](const auto& of) {
        if constexpr (requires { of.activation; }) {
          return of.activation;
        } else {
          return Activation::none;
        }
      },
      op);
}

bool is_pixel(const ops::Shape& shape) { return shape.height == 1 && shape.width == 1; }

/// Returns the matrix, windows × extent, that takes the means of an adaptive pool along an axis.
std::vector<float> means_of_windows(std::int64_t windows, std::int64_t extent) {
  std::vector<float> matrix(static_cast<std::size_t>(windows * extent));
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t begin = i * extent / windows;
    const std::int64_t end = ((i + 1) * extent + windows - 1) / windows;
    for (std::int64_t at = begin; at < end; ++at)
      matrix[static_cast<std::size_t>(i * extent + at)] = 1 / static_cast<float>(end - begin);
  }
  return matrix;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      result[static_cast<std::size_t>(column * rows + row)] = matrix[static_cast<std::size_t>(row * columns + column)];
  return result;
}

}  // namespace

OnnxNodes::OnnxNodes(const Graph& graph, OnnxGraph& onnx, const WeightsOf& weights)
    : graph_(graph), onnx_(onnx), weights_(weights), names_(graph.values().size()), flat_(graph.values().size()) {}

void OnnxNodes::add(const Node& node) {
  node_ = &node;
  const Activation activation = activation_of(node.op);
  const std::string name = final_name(node.output);
  result_ = activation == Activation::none ? name : node.name + ".sum";
  std::string made = std::visit(*this, node.op);
  result_ = name;
  names_[static_cast<std::size_t>(node.output)] = activated(made, activation);
}

void OnnxNodes::add_outputs() {
  for (const Output& output : graph_.outputs()) {
    if (output.exported.channels_last) {
      add_channels_last(output);
      continue;
    }
    const auto value = static_cast<std::size_t>(output.value);
    const ops::Shape& shape = graph_.shape(output.value);
    const bool is_matrix = is_pixel(shape);
    const std::string name = output.exported_name();
    if (names_[value] != name) onnx_.node(is_matrix && !flat_[value] ? "Flatten" : "Identity", {names_[value]}, name);
    onnx_.output(name,
                 is_matrix ? OnnxDims{0, shape.channels} : OnnxDims{0, shape.channels, shape.height, shape.width});
  }
}

std::string OnnxNodes::operator()(const Convolution& op) {
  return result("Conv", with_parameters(spatial()),
                {{"kernel_shape", ints(op.kernel)},
                 {"strides", ints(op.stride)},
                 {"pads", pads(op.padding)},
                 {"dilations", ints(op.dilation)},
                 {"group", op.groups}});
}

std::string OnnxNodes::operator()(const TransposedConvolution& op) {
  return result("ConvTranspose", with_parameters(spatial()),
                {{"kernel_shape", ints(op.kernel)},
                 {"strides", ints(op.stride)},
                 {"pads", pads(op.padding)},
                 {"output_padding", ints(op.output_padding)},
                 {"dilations", ints(op.dilation)},
                 {"group", op.groups}});
}

std::string OnnxNodes::operator()(const BatchNorm& op) {
  if (op.normalizes_residual || op.pool) refuse();
  std::vector<std::string> inputs = with_parameters(spatial());
  for (const int state : node_->state) inputs.push_back(weight(graph_.state().at(state)));
  const std::vector<OnnxAttribute> attributes{{"epsilon", static_cast<float>(op.epsilon)}};
  if (!op.residual) return result("BatchNormalization", inputs, attributes);
  const std::string normalized = onnx_.node("BatchNormalization", inputs, node_->name + ".normalized", attributes);
  return result("Add", {normalized, spatial(1)});
}

std::string OnnxNodes::operator()(const FrozenBatchNorm& op) {
  std::vector<std::string> inputs{spatial()};
  for (const int state : node_->state) inputs.push_back(weight(graph_.state().at(state)));
  return result("BatchNormalization", inputs, {{"epsilon", static_cast<float>(op.epsilon)}});
}

std::string OnnxNodes::operator()(const Relu& /*op*/) { return result("Relu", elementwise()); }

std::string OnnxNodes::operator()(const Pointwise& op) {
  const std::vector<std::string> input = elementwise();
  switch (op.kind) {
    case Pointwise::Kind::relu6: return activated(input.front(), Activation::relu6);
    case Pointwise::Kind::leaky_relu: return result("LeakyRelu", input, {{"alpha", static_cast<float>(op.slope)}});
    case Pointwise::Kind::silu:
      return result("Mul", {input.front(), onnx_.node("Sigmoid", input, node_->name + ".sigmoid")});
    case Pointwise::Kind::hard_swish: return result("HardSwish", input);
    case Pointwise::Kind::sigmoid: return result("Sigmoid", input);
    case Pointwise::Kind::tanh: return result("Tanh", input);
    case Pointwise::Kind::affine: return affine(op, input.front());
    case Pointwise::Kind::hard_sigmoid:
      return result("HardSigmoid", input,
                    {{"alpha", static_cast<float>(op.slope)}, {"beta", static_cast<float>(op.offset)}});
    case Pointwise::Kind::gelu:
    case Pointwise::Kind::gelu_tanh: break;
  }
  refuse();
}

std::string OnnxNodes::affine(const Pointwise& op, const std::string& input) {
  const std::array<float, 1> slope{static_cast<float>(op.slope)};
  const std::array<float, 1> offset{static_cast<float>(op.offset)};
  const std::string product =
      onnx_.node("Mul", {input, onnx_.constant(node_->name + ".slope", {}, slope)}, node_->name + ".product");
  return result("Add", {product, onnx_.constant(node_->name + ".offset", {}, offset)});
}

std::string OnnxNodes::operator()(const MaxPool& op) {
  return result("MaxPool", {spatial()},
                {{"kernel_shape", ints(op.kernel)}, {"strides", ints(op.stride)}, {"pads", pads(op.padding)}});
}

std::string OnnxNodes::operator()(const AveragePool& op) {
  return result("AveragePool", {spatial()},
                {{"kernel_shape", ints(op.kernel)},
                 {"strides", ints(op.stride)},
                 {"pads", pads(op.padding)},
                 {"count_include_pad", std::int64_t{op.count_include_pad ? 1 : 0}}});
}

std::string OnnxNodes::operator()(const GlobalAveragePool& /*op*/) { return result("GlobalAveragePool", {spatial()}); }

/// Windows of one size are an ordinary pool. Others are a product from the left for the rows, and one from the right
/// for the columns.
std::string OnnxNodes::operator()(const AdaptiveAveragePool& op) {
  const ops::Shape& in = shape();
  if (in.height % op.height == 0 && in.width % op.width == 0) {
    const Ints window{in.height / op.height, in.width / op.width};
    return result("AveragePool", {spatial()}, {{"kernel_shape", window}, {"strides", window}});
  }
  const std::string rows =
      onnx_.constant(node_->name + ".rows", {op.height, in.height}, means_of_windows(op.height, in.height));
  const std::string columns = onnx_.constant(node_->name + ".columns", {in.width, op.width},
                                             transposed(means_of_windows(op.width, in.width), op.width, in.width));
  const std::string pooled = onnx_.node("MatMul", {rows, spatial()}, node_->name + ".of_rows");
  return result("MatMul", {pooled, columns});
}

std::string OnnxNodes::operator()(const ChannelPool& op) {
  const std::string axes = onnx_.constant(node_->name + ".axes", Ints{1});
  return result(op.kind == ChannelPool::Kind::mean ? "ReduceMean" : "ReduceMax", {spatial(), axes});
}

std::string OnnxNodes::operator()(const Linear& /*op*/) {
  const auto value = static_cast<std::size_t>(node_->inputs[0]);
  const std::string rows = flat_[value] ? plain() : onnx_.node("Flatten", {plain()}, node_->name + ".flat");
  flat_[static_cast<std::size_t>(node_->output)] = true;
  return result("Gemm", with_parameters(rows), {{"transB", std::int64_t{1}}});
}

std::string OnnxNodes::operator()(const Add& /*op*/) { return result("Add", elementwise()); }

std::string OnnxNodes::operator()(const Multiply& /*op*/) { return result("Mul", {spatial(0), spatial(1)}); }

/// Evaluations do not drop anything.
std::string OnnxNodes::operator()(const Dropout& /*op*/) { return elementwise().front(); }

std::string OnnxNodes::operator()(const Concat& op) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < node_->inputs.size(); ++i) inputs.push_back(spatial(i));
  return result("Concat", inputs, {{"axis", axis_of(op.axis)}});
}

std::string OnnxNodes::operator()(const Slice& op) {
  const std::string begin = onnx_.constant(node_->name + ".begin", Ints{op.begin});
  const std::string end = onnx_.constant(node_->name + ".end", Ints{op.end});
  const std::string axes = onnx_.constant(node_->name + ".axes", Ints{axis_of(op.axis)});
  return result("Slice", {spatial(), begin, end, axes});
}

std::string OnnxNodes::operator()(const Reshape& op) {
  const std::string extents = onnx_.constant(node_->name + ".extents", Ints{0, op.channels, op.height, op.width});
  return result("Reshape", {plain(), extents});
}

std::string OnnxNodes::operator()(const Permute& op) {
  Ints order{0};
  for (const Axis axis : op.order) order.push_back(axis_of(axis));
  return result("Transpose", {spatial()}, {{"perm", order}});
}

std::string OnnxNodes::operator()(const Resize& op) {
  const ops::Shape& to = result_shape();
  const std::string sizes = onnx_.constant(node_->name + ".sizes", Ints{to.height, to.width});
  const bool is_nearest = op.mode == Interpolation::nearest;
  const char* coordinates = is_nearest ? "asymmetric" : op.align_corners ? "align_corners" : "half_pixel";
  return result("Resize", {spatial(), "", "", sizes},
                {{"mode", std::string(is_nearest ? "nearest" : "linear")},
                 {"coordinate_transformation_mode", std::string(coordinates)},
                 {"nearest_mode", std::string("floor")},
                 {"axes", Ints{2, 3}}});
}

void OnnxNodes::refuse() const {
  throw Error(ErrorCode::unsupported, "layer '" + node_->name + "' of the model '" + graph_.name() + "' (" +
                                          ops::text_of(node_->op) + ") cannot be exported to ONNX");
}

/// Returns the name of an output where this value can be it as it is, else the name of the value.
std::string OnnxNodes::final_name(int value) const {
  const auto& outputs = graph_.outputs();
  const auto output = std::ranges::find(outputs, value, &Output::value);
  const bool is_direct = output != outputs.end() && !output->exported.channels_last &&
                         (!is_pixel(graph_.shape(value)) || node_->op.index() == Operator(Linear{}).index());
  return is_direct ? output->exported_name() : graph_.values()[static_cast<std::size_t>(value)].name;
}

const ops::Shape& OnnxNodes::shape(std::size_t input) const { return graph_.shape(node_->inputs.at(input)); }

const std::string& OnnxNodes::plain(std::size_t input) const {
  return names_[static_cast<std::size_t>(node_->inputs.at(input))];
}

/// Returns an input as N×C×H×W.
std::string OnnxNodes::spatial(std::size_t input) {
  if (!flat_[static_cast<std::size_t>(node_->inputs.at(input))]) return plain(input);
  std::string name = plain(input) + ".spatial";
  if (!stored_.insert(name).second) return name;
  const std::string extents = onnx_.constant(name + ".extents", Ints{0, shape(input).channels, 1, 1});
  return onnx_.node("Reshape", {plain(input), extents}, std::move(name));
}

/// Returns the inputs of an operator that computes by elements: as they are if all are matrices, and then so is its
/// result.
std::vector<std::string> OnnxNodes::elementwise() {
  const bool is_flat =
      std::ranges::all_of(node_->inputs, [&](int value) -> bool { return flat_[static_cast<std::size_t>(value)]; });
  flat_[static_cast<std::size_t>(node_->output)] = is_flat;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < node_->inputs.size(); ++i) inputs.push_back(is_flat ? plain(i) : spatial(i));
  return inputs;
}

/// Adds a tensor of the model where it is missing. @return its name
std::string OnnxNodes::weight(const TensorSlot& tensor) {
  if (stored_.insert(tensor.name).second) onnx_.constant(tensor.name, tensor.shape, weights_(tensor));
  return tensor.name;
}

std::vector<std::string> OnnxNodes::with_parameters(std::string input) {
  std::vector<std::string> inputs{std::move(input)};
  for (const int parameter : node_->parameters) inputs.push_back(weight(graph_.parameters().at(parameter)));
  return inputs;
}

std::string OnnxNodes::result(const char* op, const std::vector<std::string>& inputs,
                              const std::vector<OnnxAttribute>& attributes) {
  return onnx_.node(op, inputs, result_, attributes);
}

std::string OnnxNodes::activated(const std::string& input, Activation activation) {
  if (activation == Activation::none) return input;
  if (activation == Activation::relu) return result("Relu", {input});
  constexpr std::array<float, 1> least{0};
  constexpr std::array<float, 1> most{6};
  const std::string low = onnx_.constant(node_->name + ".least", {}, least);
  return result("Clip", {input, low, onnx_.constant(node_->name + ".most", {}, most)});
}

}  // namespace lockstep::nn
