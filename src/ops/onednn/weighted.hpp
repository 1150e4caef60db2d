// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <utility>

#include "lockstep/ops/ops.hpp"
#include "ops/onednn/primitives/primitive.hpp"

namespace lockstep::ops::onednn {

/// A kernel that multiplies by weights: oneDNN's convolution, deconvolution or inner product, with a bias and a ReLU if
/// the operator has them. It copies weights to the layouts of the primitives, and their gradient back.
class WeightedKernel : public Kernel {
 public:
  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_data_.kernel() + ", " + backward_weights_.kernel();
  }
  /// Returns oneDNN's names of the kernels for forward, backward data and backward weights.
  [[nodiscard]] std::array<std::string, 3> kernels() const {
    return {forward_.kernel(), backward_data_.kernel(), backward_weights_.kernel()};
  }
  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]},
                  {DNNL_ARG_WEIGHTS, forward_weights_.load(call.parameters[0])},
                  {DNNL_ARG_BIAS, bias_ && !add_bias_ ? call.parameters[1] : nullptr},
                  {DNNL_ARG_DST, call.output}});
    if (add_bias_) add_bias_.run(call.parameters[1], call.output);
  }

  void backward(const Arguments& call) override {
    if (relu_) relu_backward_.run(call.output, call.output_gradient, call.output_gradient);
    if (call.input_gradients[0] != nullptr) {
      backward_data_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                          {DNNL_ARG_WEIGHTS, backward_weights_in_.load(call.parameters[0])},
                          {DNNL_ARG_DIFF_SRC, call.input_gradients[0]}});
    }
    backward_weights_.run({{DNNL_ARG_SRC, call.inputs[0]},
                           {DNNL_ARG_DIFF_DST, call.output_gradient},
                           {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.target(call.parameter_gradients[0])},
                           {DNNL_ARG_DIFF_BIAS, bias_ ? call.parameter_gradients[1] : nullptr}});
    weight_gradient_.store(call.parameter_gradients[0]);
  }

 protected:
  WeightedKernel(bool bias, bool relu) : bias_(bias), relu_(relu) {}

  /// Lets `add` follow the forward primitive, which then has neither bias nor ReLU.
  void set_add_bias(AddBias add) { add_bias_ = std::move(add); }

  /// Makes the primitives of the passes from their descriptors.
  /// @param plain  the layout of lockstep's weights
  template <typename Forward, typename BackwardData, typename BackwardWeights>
  void make_primitives(const ContextPtr& context, const Desc& plain, const Forward& ahead, const BackwardData& data,
                       const BackwardWeights& weights) {
    forward_weights_ = Reordered(context, plain, ahead.weights_desc());
    forward_ = Primitive(context, ahead,
                         {{DNNL_ARG_SRC, ahead.src_desc()},
                          {DNNL_ARG_WEIGHTS, ahead.weights_desc()},
                          {DNNL_ARG_BIAS, ahead.bias_desc()},
                          {DNNL_ARG_DST, ahead.dst_desc()}});
    backward_weights_in_ = Reordered(context, plain, data.weights_desc());
    backward_data_ = Primitive(context, data,
                               {{DNNL_ARG_DIFF_DST, data.diff_dst_desc()},
                                {DNNL_ARG_WEIGHTS, data.weights_desc()},
                                {DNNL_ARG_DIFF_SRC, data.diff_src_desc()}});
    weight_gradient_ = Reordered(context, plain, weights.diff_weights_desc());
    backward_weights_ = Primitive(context, weights,
                                  {{DNNL_ARG_SRC, weights.src_desc()},
                                   {DNNL_ARG_DIFF_DST, weights.diff_dst_desc()},
                                   {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
                                   {DNNL_ARG_DIFF_BIAS, weights.diff_bias_desc()}});
    if (relu_) relu_backward_ = ReluBackward(context, ahead.dst_desc());
  }

 private:
  bool bias_;
  bool relu_;
  Primitive forward_;
  AddBias add_bias_;
  Primitive backward_data_;
  Primitive backward_weights_;
  Reordered forward_weights_;
  Reordered backward_weights_in_;
  Reordered weight_gradient_;
  ReluBackward relu_backward_;
};

}  // namespace lockstep::ops::onednn
