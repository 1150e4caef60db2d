// SPDX-License-Identifier: Apache-2.0
#include "ops/formulas/update_rules.hpp"
#include "ops/host/host_ops.hpp"

namespace lockstep::ops {
namespace {

// The arrays of a slice are distinct; __restrict lets the compiler vectorize without run-time checks.

template <typename T>
LOCKSTEP_INLINE void sgd(const UpdateStep& step) {
  T* __restrict weights = static_cast<T*>(step.parameters);
  T* __restrict velocity = static_cast<T*>(step.first);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const UpdateFactors<T> f(step);
  // An update subtracts rate·(g + momentum·v) or rate·v. Both are rate·(from_gradient·g + from_velocity·v).
  const T from_gradient = step.nesterov ? T{1} : T{0};
  const T from_velocity = step.nesterov ? f.momentum : T{1};
  for (std::int64_t i = 0; i < step.count.value; ++i) {
    const T g = gradients[i] * f.scale + f.decay * weights[i];
    const T v = normal_or_zero(f.momentum * velocity[i] + g);
    velocity[i] = v;
    weights[i] -= f.rate * (from_gradient * g + from_velocity * v);
  }
}

template <typename T>
LOCKSTEP_INLINE void lars(const UpdateStep& step) {
  T* __restrict weights = static_cast<T*>(step.parameters);
  T* __restrict velocity = static_cast<T*>(step.first);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const UpdateFactors<T> f(step);
  const T local_rate = static_cast<T>(rate_of(step) * trust_ratio(step));
  for (std::int64_t i = 0; i < step.count.value; ++i) {
    const T g = gradients[i] * f.scale + f.decay * weights[i];
    const T v = normal_or_zero(f.momentum * velocity[i] + local_rate * g);
    velocity[i] = v;
    weights[i] -= v;
  }
}

template <typename T>
LOCKSTEP_INLINE void adamw(const UpdateStep& step) {
  T* __restrict weights = static_cast<T*>(step.parameters);
  T* __restrict first = static_cast<T*>(step.first);
  T* __restrict second = static_cast<T*>(step.second);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const UpdateFactors<T> f(step);
  const T kept = T{1} - f.rate * f.decay;
  for (std::int64_t i = 0; i < step.count.value; ++i)
    weights[i] = kept * weights[i] - f.rate * f.moments(gradients[i], first[i], second[i]);
}

/// The second half of LAMB's update, after measure_update().
template <typename T>
LOCKSTEP_INLINE void lamb(const UpdateStep& step) {
  T* __restrict weights = static_cast<T*>(step.parameters);
  const T* __restrict first = static_cast<const T*>(step.first);
  const T* __restrict second = static_cast<const T*>(step.second);
  const UpdateFactors<T> f(step);
  const T local_rate = static_cast<T>(rate_of(step) * trust_ratio(step));
  for (std::int64_t i = 0; i < step.count.value; ++i)
    weights[i] -= local_rate * (f.direction(first[i], second[i]) + f.decay * weights[i]);
}

/// The first half of LAMB's update. @return the sum of the squares of the update before it is scaled
template <typename T>
LOCKSTEP_INLINE double lamb_moments(const UpdateStep& step) {
  constexpr std::int64_t lanes = 8;  // partial sums, so that vectors of any width add in the same order
  const T* __restrict weights = static_cast<const T*>(step.parameters);
  T* __restrict first = static_cast<T*>(step.first);
  T* __restrict second = static_cast<T*>(step.second);
  const T* __restrict gradients = static_cast<const T*>(step.gradients);
  const UpdateFactors<T> f(step);
  double sums[lanes] = {};
  const auto add = [&](std::int64_t i, std::int64_t lane) {
    const auto u = static_cast<double>(f.moments(gradients[i], first[i], second[i]) + f.decay * weights[i]);
    sums[lane] += u * u;
  };
  std::int64_t i = 0;
  for (; i + lanes <= step.count.value; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) add(i + lane, lane);
  for (; i < step.count.value; ++i) add(i, i % lanes);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <typename T>
LOCKSTEP_INLINE void update(const UpdateStep& step) {
  switch (step.rule) {
    case UpdateRule::sgd: return sgd<T>(step);
    case UpdateRule::lars: return lars<T>(step);
    case UpdateRule::adamw: return adamw<T>(step);
    case UpdateRule::lamb: return lamb<T>(step);
  }
}

LOCKSTEP_VECTORISED void update_float32(const UpdateStep& step) { update<float>(step); }
LOCKSTEP_VECTORISED void update_float64(const UpdateStep& step) { update<double>(step); }
LOCKSTEP_VECTORISED double lamb_moments_float32(const UpdateStep& step) { return lamb_moments<float>(step); }
LOCKSTEP_VECTORISED double lamb_moments_float64(const UpdateStep& step) { return lamb_moments<double>(step); }

/// Returns the step for elements `begin` … `begin + count`.
UpdateStep range_of(const UpdateStep& step, std::int64_t begin, std::int64_t count) {
  const auto at = [&](auto* data) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const std::byte, std::byte>;
    return data == nullptr ? nullptr : static_cast<Byte*>(data) + begin * size_of(step.dtype);
  };
  UpdateStep range = step;
  range.parameters = at(step.parameters);
  range.gradients = at(step.gradients);
  range.first = at(step.first);
  range.second = at(step.second);
  range.count = {count};
  return range;
}

/// Keeps eight partial sums, so that vectors of any width add in the same order.
template <typename T>
LOCKSTEP_INLINE double squares(const T* values, std::int64_t count) {
  constexpr std::int64_t lanes = 8;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto x = static_cast<double>(values[i + lane]);
      sums[lane] += x * x;
    }
  }
  for (; i < count; ++i) sums[i % lanes] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

LOCKSTEP_VECTORISED double squares_float32(const float* values, std::int64_t count) { return squares(values, count); }
LOCKSTEP_VECTORISED double squares_float64(const double* values, std::int64_t count) { return squares(values, count); }

template <typename T>
LOCKSTEP_INLINE void average(T* __restrict averages, const T* __restrict values, std::int64_t count,
                             const AverageScalars& scalars) {
  const T keep = static_cast<T>(scalars.keep);
  const T take = static_cast<T>(scalars.take);
  if (keep == 0 || take == 0) {
    for (std::int64_t i = 0; i < count; ++i)
      averages[i] = (keep == 0 ? T{0} : keep * averages[i]) + (take == 0 ? T{0} : take * values[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) averages[i] = keep * averages[i] + take * values[i];
  }
}

LOCKSTEP_VECTORISED void average_float32(float* averages, const float* values, std::int64_t count,
                                         const AverageScalars& scalars) {
  average(averages, values, count, scalars);
}
LOCKSTEP_VECTORISED void average_float64(double* averages, const double* values, std::int64_t count,
                                         const AverageScalars& scalars) {
  average(averages, values, count, scalars);
}

/// Returns part `part` of `parts` of the step. The parts have about equal sizes and begin at cache lines if the tensors
/// do.
UpdateStep part_of(const UpdateStep& step, int part, int parts) {
  constexpr std::int64_t line = 16;  // unit: elements; a cache line of float32
  const std::int64_t lines = (step.count.value + line - 1) / line;
  const std::int64_t begin = std::min(lines * part / parts * line, step.count.value);
  const std::int64_t end = std::min(lines * (part + 1) / parts * line, step.count.value);
  return range_of(step, begin, end - begin);
}

double sum_of_squares(const ConstBuffer& values, BlockSums& sums, const OnTeam& on_team) {
  return sums(values.count, on_team, [&](std::int64_t begin, std::int64_t count) {
    return values.dtype == DType::float32 ? squares_float32(static_cast<const float*>(values.data) + begin, count)
                                          : squares_float64(static_cast<const double*>(values.data) + begin, count);
  });
}

void average_part(const AverageStep& step, int part, int parts) {
  const std::int64_t begin = step.count.value * part / parts;
  const std::int64_t count = step.count.value * (part + 1) / parts - begin;
  if (step.dtype == DType::float32) {
    average_float32(static_cast<float*>(step.averages) + begin, static_cast<const float*>(step.values) + begin, count,
                    *step.scalars);
  } else {
    average_float64(static_cast<double*>(step.averages) + begin, static_cast<const double*>(step.values) + begin, count,
                    *step.scalars);
  }
}

}  // namespace

void require_real(DType dtype, const char* before, const char* after) {
  if (dtype == DType::float32 || dtype == DType::float64) return;
  throw Error(ErrorCode::unsupported, before + std::string(name(dtype)) + after + "; use float32 or float64");
}

void HostOps::update(std::span<const UpdateStep> steps) {
  for (const UpdateStep& step : steps) {
    require_real(step.dtype, "an update of ", " parameters");
    if (!step.scalars->go) continue;
    on_team_([&](int member, int members) {
      const UpdateStep part = part_of(step, member, members);
      step.dtype == DType::float32 ? update_float32(part) : update_float64(part);
    });
  }
}

void HostOps::measure_update(std::span<const UpdateStep> steps) {
  for (const UpdateStep& step : steps) measure(step);
}

void HostOps::measure(const UpdateStep& step) {
  require_real(step.dtype, "an update of ", " parameters");
  if (!step.scalars->go) return;
  const auto squares = [&](const void* values) {
    return sum_of_squares({values, step.count, step.dtype}, sums_, on_team_);
  };
  if (step.squares != nullptr) step.squares[0] += squares(step.parameters);
  double other = 0;
  if (step.rule == UpdateRule::lamb) {
    other = sums_(step.count, on_team_, [&](std::int64_t begin, std::int64_t count) {
      const UpdateStep block = range_of(step, begin, count);
      return step.dtype == DType::float32 ? lamb_moments_float32(block) : lamb_moments_float64(block);
    });
  } else {
    other = squares(step.gradients);
  }
  if (step.squares != nullptr) step.squares[1] += other;
}

void HostOps::average(const AverageStep& step) {
  require_real(step.dtype, "averages of ", " values");
  if (step.scalars->go) on_team_([&](int member, int members) { average_part(step, member, members); });
}

void HostOps::add_squares(const ConstBuffer& values, double* sum, Queue /*queue*/) {
  require_real(values.dtype, "squares of ", " values");
  *sum += sum_of_squares(values, sums_, on_team_);
}

}  // namespace lockstep::ops
