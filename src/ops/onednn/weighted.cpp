// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/weighted.hpp"

namespace lockstep::ops::onednn {

void WeightedKernel::forward(const Arguments& call) {
  forward_.run({{DNNL_ARG_SRC, call.inputs[0]},
                {DNNL_ARG_WEIGHTS, forward_weights_.load(call.parameters[0])},
                {DNNL_ARG_BIAS, bias_ ? call.parameters[1] : nullptr},
                {DNNL_ARG_DST, call.output}});
}

void WeightedKernel::backward(const Arguments& call) {
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

}  // namespace lockstep::ops::onednn
