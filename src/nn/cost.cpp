// SPDX-License-Identifier: Apache-2.0
#include "nn/cost.hpp"

#include <variant>

namespace lockstep::nn {
namespace {

constexpr std::int64_t per_multiply_add = 2;

/// One overload for each kind of layer.
struct Counter {
  const std::vector<ops::Shape>& inputs;
  std::int64_t in;   ///< elements of the first input
  std::int64_t out;  ///< of the result
  bool backward;
  bool input_gradients;

  Cost operator()(const Convolution& shape) const {
    const std::int64_t each = inputs[0].channels * shape.kernel * shape.kernel;
    return multiplied(each, shape.out_channels, shape.bias, shape.activation);
  }
  Cost operator()(const Linear& linear) const {
    const std::int64_t each = inputs[0].channels * inputs[0].height * inputs[0].width;
    return multiplied(each, linear.out_features, true, linear.activation);
  }
  /// Forward: two sums, then scaled and shifted. Backward: two sums, then three terms.
  Cost operator()(const BatchNorm& norm) const {
    const Cost own = backward ? Cost{10 * in, 3 * in} : Cost{6 * in, 2 * in};
    return with(own, norm.activation);
  }
  Cost operator()(const Relu&) const { return {in, backward ? 3 * in : 2 * in}; }
  Cost operator()(const MaxPool& pool) const { return pooled(pool.window); }
  Cost operator()(const AveragePool& pool) const { return pooled(pool.window); }
  Cost operator()(const Add& add) const { return with({backward ? 0 : out, 3 * out}, add.activation); }

 private:
  /// Each result is a sum of `each` products.
  [[nodiscard]] Cost multiplied(std::int64_t each, std::int64_t channels, bool bias, ops::Activation activation) const {
    const std::int64_t weights = channels * each + (bias ? channels : 0);
    const std::int64_t products = per_multiply_add * out * each;
    if (!backward) return with({products, in + weights + out}, activation);
    // Of the weights; and, from the weights, of the input.
    const Cost of_input = input_gradients ? Cost{products, weights + in} : Cost{};
    return with({products + of_input.flops, in + out + weights + of_input.elements}, activation);
  }
  [[nodiscard]] Cost pooled(const ops::PoolShape& window) const {
    return {out * window.kernel * window.kernel, in + out};
  }
  /// In backward the sign of the result says what passes.
  [[nodiscard]] Cost with(Cost own, ops::Activation activation) const {
    if (activation == ops::Activation::none) return own;
    return {own.flops + out, own.elements + (backward ? out : 0)};
  }
};

struct Describer {
  std::string operator()(const Convolution& shape) const {
    return "convolution " + windows(shape.kernel, shape.stride) + with(shape.activation);
  }
  std::string operator()(const BatchNorm& norm) const { return "batch norm" + with(norm.activation); }
  std::string operator()(const Relu&) const { return "ReLU"; }
  std::string operator()(const MaxPool& pool) const {
    return "max pool " + windows(pool.window.kernel, pool.window.stride);
  }
  std::string operator()(const AveragePool& pool) const {
    return "average pool " + windows(pool.window.kernel, pool.window.stride);
  }
  std::string operator()(const Linear& linear) const { return "linear" + with(linear.activation); }
  std::string operator()(const Add& add) const { return "add" + with(add.activation); }

 private:
  static std::string with(ops::Activation activation) { return activation == ops::Activation::relu ? ", ReLU" : ""; }
  static std::string windows(std::int64_t kernel, std::int64_t stride) {
    const std::string side = std::to_string(kernel);
    return side + "×" + side + (stride == 1 ? "" : ", stride " + std::to_string(stride));
  }
};

}  // namespace

Cost cost(const Layer& layer, const std::vector<ops::Shape>& inputs, ops::Pass pass, bool input_gradients) {
  ops::Shape output = layer.output;
  output.batch = inputs[0].batch;
  const Counter count{inputs, inputs[0].count(), output.count(), pass == ops::Pass::backward, input_gradients};
  return std::visit(count, layer.kind);
}

std::string describe(const LayerKind& kind) { return std::visit(Describer{}, kind); }

}  // namespace lockstep::nn
