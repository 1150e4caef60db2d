// SPDX-License-Identifier: Apache-2.0
#include "ops/sgd.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include "kernels/vectorized.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ops {

namespace {

template <typename T>
LOCKSTEP_INLINE void update(const SgdStep& step) {
  // The arrays are distinct; __restrict lets the compiler vectorize without run-time checks.
  T* __restrict parameters = static_cast<T*>(step.parameters);
  T* __restrict velocity = static_cast<T*>(step.velocity);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const T rate = static_cast<T>(step.scalars->learning_rate);
  const T scale = static_cast<T>(step.scalars->gradient_scale);
  const T momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.weight_decay);
  // An update subtracts rate·(g + momentum·v) or rate·v. Both are rate·(from_gradient·g + from_velocity·v).
  const T from_gradient = step.nesterov ? T{1} : T{0};
  const T from_velocity = step.nesterov ? momentum : T{1};
  for (std::int64_t i = 0; i < step.count.value; ++i) {
    const T g = gradients[i] * scale + decay * parameters[i];
    const T v = momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= rate * (from_gradient * g + from_velocity * v);
  }
}

LOCKSTEP_VECTORISED void update_float32(const SgdStep& step) { update<float>(step); }
LOCKSTEP_VECTORISED void update_float64(const SgdStep& step) { update<double>(step); }

}  // namespace

void check_sgd(const SgdStep& step) {
  if (step.dtype == DType::float32 || step.dtype == DType::float64) return;
  throw Error(ErrorCode::unsupported,
              "SGD on " + std::string(name(step.dtype)) + " parameters; use float32 or float64");
}

void sgd_step(const SgdStep& step) {
  if (!step.scalars->go) return;
  step.dtype == DType::float32 ? update_float32(step) : update_float64(step);
}

SgdStep part_of(const SgdStep& step, int part, int parts) {
  constexpr std::int64_t line = 16;  // unit: elements; a cache line of float32
  const std::int64_t lines = (step.count.value + line - 1) / line;
  const std::int64_t begin = std::min(lines * part / parts * line, step.count.value);
  const std::int64_t end = std::min(lines * (part + 1) / parts * line, step.count.value);
  const auto at = [&](auto* data) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) + begin * size_of(step.dtype);
  };
  SgdStep slice = step;
  slice.parameters = at(step.parameters);
  slice.gradients = at(step.gradients);
  slice.velocity = at(step.velocity);
  slice.count = {end - begin};
  return slice;
}

}  // namespace lockstep::ops
