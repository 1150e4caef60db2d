// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimizer.hpp"

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {

Sgd::Sgd(ops::Ops& ops, SgdOptions options) : ops_(ops), options_(options) {
  if (!(options.momentum >= 0) || !(options.weight_decay >= 0)) {
    throw Error(ErrorCode::invalid_argument, "momentum (" + std::to_string(options.momentum) + ") and weight decay (" +
                                                 std::to_string(options.weight_decay) + ") cannot be negative");
  }
  if (options.nesterov && options.momentum == 0) {
    throw Error(ErrorCode::invalid_argument, "Nesterov's method needs a momentum above 0");
  }
}

void Sgd::step(Buffer parameters, ConstBuffer gradients, Buffer velocity, std::int64_t samples_in_step,
               double learning_rate) {
  if (samples_in_step < 1) {
    throw Error(ErrorCode::invalid_argument, "a step needs samples, not " + std::to_string(samples_in_step));
  }
  const bool counts_agree = gradients.count == parameters.count && velocity.count == parameters.count;
  const bool dtypes_agree = gradients.dtype == parameters.dtype && velocity.dtype == parameters.dtype;
  if (!counts_agree || !dtypes_agree) {
    throw Error(ErrorCode::invalid_argument,
                "parameters, gradients and velocity must have one count and dtype; the counts are " +
                    std::to_string(parameters.count.value) + ", " + std::to_string(gradients.count.value) + " and " +
                    std::to_string(velocity.count.value));
  }
  ops_.sgd({.parameters = parameters.data,
            .gradients = gradients.data,
            .velocity = velocity.data,
            .count = parameters.count,
            .dtype = parameters.dtype,
            .learning_rate = learning_rate,
            .momentum = options_.momentum,
            .nesterov = options_.nesterov,
            .weight_decay = options_.weight_decay,
            .gradient_scale = 1.0 / static_cast<double>(samples_in_step)});
}

}  // namespace lockstep::nn
