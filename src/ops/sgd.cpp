// SPDX-License-Identifier: Apache-2.0
#include "ops/sgd.hpp"

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::ops {

namespace {

template <typename T>
void update(const SgdStep& step) {
  // Distinct arrays, which the compiler has to be told to vectorise without run-time checks.
  T* __restrict parameters = static_cast<T*>(step.parameters);
  T* __restrict velocity = static_cast<T*>(step.velocity);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const T rate = static_cast<T>(step.learning_rate);
  const T momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.weight_decay);
  const T scale = static_cast<T>(step.gradient_scale);
  // parameter −= rate·(g + momentum·v) or rate·v: both are rate·(from_gradient·g + from_velocity·v).
  const T from_gradient = step.nesterov ? T{1} : T{0};
  const T from_velocity = step.nesterov ? momentum : T{1};
  for (std::int64_t i = 0; i < step.count.value; ++i) {
    const T g = gradients[i] * scale + decay * parameters[i];
    const T v = momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= rate * (from_gradient * g + from_velocity * v);
  }
}

}  // namespace

void sgd_step(const SgdStep& step) {
  switch (step.dtype) {
    case DType::float32: return update<float>(step);
    case DType::float64: return update<double>(step);
    default: break;
  }
  throw Error(ErrorCode::unsupported,
              "SGD on " + std::string(name(step.dtype)) + " parameters; use float32 or float64");
}

}  // namespace lockstep::ops
