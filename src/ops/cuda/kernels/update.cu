// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/step_stages.hpp"
#include "ops/formulas/update_rules.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The arrays and numbers of an update.
struct Update : UpdateFactors<float> {
  float* weights;
  float* first;
  float* second;
  const float* gradients;

  explicit __device__ Update(const UpdateStep& step)
      : UpdateFactors(step),
        weights(static_cast<float*>(step.parameters)),
        first(static_cast<float*>(step.first)),
        second(static_cast<float*>(step.second)),
        gradients(static_cast<const float*>(step.gradients)) {}

  /// Overwrites both moments of an element. @return its direction
  __device__ float moments(std::int64_t i) const { return UpdateFactors::moments(gradients[i], first[i], second[i]); }
  __device__ float direction(std::int64_t i) const { return UpdateFactors::direction(first[i], second[i]); }
};

__device__ void sgd(const Update& u, bool nesterov, std::int64_t i) {
  const float g = u.gradients[i] * u.scale + u.decay * u.weights[i];
  const float v = u.momentum * u.first[i] + g;
  u.first[i] = v;
  u.weights[i] -= u.rate * (nesterov ? g + u.momentum * v : v);
}

__device__ void lars(const Update& u, float trust, std::int64_t i) {
  const float v = u.momentum * u.first[i] + u.rate * trust * (u.gradients[i] * u.scale + u.decay * u.weights[i]);
  u.first[i] = v;
  u.weights[i] -= v;
}

__device__ void adamw(const Update& u, std::int64_t i) {
  u.weights[i] = (1 - u.rate * u.decay) * u.weights[i] - u.rate * u.moments(i);
}

/// The second half of the update, after `measure_update`.
__device__ void lamb(const Update& u, float trust, std::int64_t i) {
  u.weights[i] -= u.rate * trust * (u.direction(i) + u.decay * u.weights[i]);
}

/// The ends of the tensors of one launch, whose arguments have at most 4 KiB.
constexpr std::size_t tensors_of_check = 256;
struct TensorEnds {
  std::int64_t of[tensors_of_check];
};

void require_float32(DType dtype, const char* what) {
  if (dtype == DType::float32) return;
  throw Error(ErrorCode::unsupported,
              std::string(what) + " of " + std::string(name(dtype)) + " values on a GPU; use float32");
}

/// Adds Σ of(i) to `*sum`, unless `scalars` say that there is no update.
template <typename Of>
void add_sum(std::int64_t count, const Of& of, double* sum, const UpdateScalars* scalars, void* workspace,
             Queue queue) {
  sum_rows<double>(
      count, 1, [=] __device__(std::int64_t i, std::int64_t /*column*/) { return of(i); },
      [=] __device__(std::int64_t /*column*/, double total) {
        if (sum != nullptr && (scalars == nullptr || scalars->go)) *sum += total;
      },
      workspace, queue);
}

/// The square of an element in double.
struct Square {
  const float* values;
  __device__ double operator()(std::int64_t i) const {
    return static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
};

/// Overwrites the moments of an element, and returns the square of what LAMB changes it by before it is scaled.
struct LambSquare {
  UpdateStep step;
  __device__ double operator()(std::int64_t i) const {
    if (!step.scalars->go) return 0;
    const Update u(step);
    const auto change = static_cast<double>(u.moments(i) + u.decay * u.weights[i]);
    return change * change;
  }
};

}  // namespace

void update(const UpdateStep& step) {
  require_float32(step.dtype, "an update");
  for_each(
      step.count.value,
      [=] __device__(std::int64_t i) {
        if (!step.scalars->go) return;
        const Update u(step);
        switch (step.rule) {
          case UpdateRule::sgd: return sgd(u, step.nesterov, i);
          case UpdateRule::lars: return lars(u, static_cast<float>(trust_ratio(step)), i);
          case UpdateRule::adamw: return adamw(u, i);
          case UpdateRule::lamb: return lamb(u, static_cast<float>(trust_ratio(step)), i);
        }
      },
      step.queue);
}

void measure_update(const UpdateStep& step, void* workspace) {
  require_float32(step.dtype, "an update");
  const std::int64_t count = step.count.value;
  double* squares = step.squares;
  if (squares != nullptr)
    add_sum(count, Square{static_cast<const float*>(step.parameters)}, squares, step.scalars, workspace, step.queue);
  double* other = squares == nullptr ? nullptr : squares + 1;
  if (step.rule == UpdateRule::lamb) {
    add_sum(count, LambSquare{step}, other, step.scalars, workspace, step.queue);
  } else {
    add_sum(count, Square{static_cast<const float*>(step.gradients)}, other, step.scalars, workspace, step.queue);
  }
}

void average(const AverageStep& step) {
  require_float32(step.dtype, "averages");
  auto* averages = static_cast<float*>(step.averages);
  const auto* values = static_cast<const float*>(step.values);
  const AverageScalars* scalars = step.scalars;
  for_each(
      step.count.value,
      [=] __device__(std::int64_t i) {
        if (!scalars->go) return;
        const auto keep = static_cast<float>(scalars->keep);
        const auto take = static_cast<float>(scalars->take);
        if (keep == 0 || take == 0) {
          averages[i] = (keep == 0 ? 0 : keep * averages[i]) + (take == 0 ? 0 : take * values[i]);
        } else {
          averages[i] = keep * averages[i] + take * values[i];
        }
      },
      step.queue);
}

void add_squares(const ConstBuffer& values, double* sum, void* workspace, Queue queue) {
  require_float32(values.dtype, "squares");
  add_sum(values.count.value, Square{static_cast<const float*>(values.data)}, sum, nullptr, workspace, queue);
}

void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts, Queue queue) {
  require_float32(values.dtype, "a check");
  std::int64_t begin = 0;
  for (std::size_t first = 0; first < ends.size(); first += tensors_of_check) {
    TensorEnds of_launch{};
    const std::span<const std::int64_t> part =
        ends.subspan(first).first(std::min(ends.size() - first, tensors_of_check));
    std::transform(part.begin(), part.end(), of_launch.of, [&](std::int64_t end) { return end - begin; });
    const auto* data = static_cast<const float*>(values.data) + begin;
    auto* bits = reinterpret_cast<unsigned long long*>(counts + first);
    for_each(
        part.back() - begin,
        [=] __device__(std::int64_t i) {
          if (std::isfinite(data[i])) return;
          int tensor = 0;
          while (i >= of_launch.of[tensor]) ++tensor;
          atomicExch(bits + tensor, kernels::cuda::bits_as<unsigned long long>(1.0));
        },
        queue);
    begin = part.back();
  }
}

void compute_scalars(StepStage stage, const StepBlock& block, Queue queue) {
  for_each(
      1, [=] __device__(std::int64_t /*i*/) { compute(stage, block); }, queue);
}

Bytes sums_workspace() {
  constexpr std::int64_t many = std::int64_t{1} << 62;
  return {RowParts(many, 1).partials() * static_cast<std::int64_t>(sizeof(double))};
}

}  // namespace lockstep::ops::cuda
