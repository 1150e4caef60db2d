// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/fold.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace emulated_gpu {
namespace {

// The type of the arithmetic.
template <typename T>
struct Arithmetic {
  using Type = T;
};
template <>
struct Arithmetic<__half> {
  using Type = float;
};
template <>
struct Arithmetic<__nv_bfloat16> {
  using Type = float;
};

/// Makes integers wrap around.
template <typename T>
auto wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}

/// Returns the larger value, as NCCL's kernels do: a NaN loses to a number.
/// @source NCCL 2.28.9, src/device/reduce_kernel.h, FuncMinMax
template <typename T>
T larger(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return std::max(x, y);
  } else {
    return std::fmax(x, y);
  }
}

template <typename T>
T smaller(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return std::min(x, y);
  } else {
    return std::fmin(x, y);
  }
}

template <typename T>
T combine(T a, T b, ncclRedOp_t op) {
  using Wide = typename Arithmetic<T>::Type;
  const Wide x = static_cast<Wide>(a);
  const Wide y = static_cast<Wide>(b);
  switch (op) {
    case ncclProd: return static_cast<T>(static_cast<Wide>(wrapping(x) * wrapping(y)));
    case ncclMax: return static_cast<T>(larger(x, y));
    case ncclMin: return static_cast<T>(smaller(x, y));
    default: return static_cast<T>(static_cast<Wide>(wrapping(x) + wrapping(y)));
  }
}

template <typename T>
T element(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof value);
  return value;
}

template <typename T>
T input(const std::byte* data, std::size_t i, const Reduction& reduction) {
  const T value = element<T>(data, i);
  return reduction.has_factor ? combine(value, element<T>(reduction.factor.data(), 0), ncclProd) : value;
}

template <typename T>
T ring_sum(const std::vector<const std::byte*>& all, std::size_t i, const Reduction& reduction, std::size_t begin) {
  T sum = input<T>(all[begin], i, reduction);
  for (std::size_t hop = 1; hop < all.size(); ++hop)
    sum = combine(input<T>(all[(begin + hop) % all.size()], i, reduction), sum, reduction.op);
  return sum;
}

/// Rank r has children 2r + 1 and 2r + 2, and adds their sums to its own value.
template <typename T>
T tree_sum(const std::vector<const std::byte*>& all, std::size_t i, const Reduction& reduction, std::size_t rank) {
  T sum = input<T>(all[rank], i, reduction);
  for (std::size_t child = 2 * rank + 1; child <= 2 * rank + 2 && child < all.size(); ++child)
    sum = combine(sum, tree_sum<T>(all, i, reduction, child), reduction.op);
  return sum;
}

/// Replaces averages of T by sums, as NCCL does.
template <typename T>
Reduction resolve(Reduction reduction, std::size_t ranks) {
  if (reduction.op != ncclAvg || std::is_integral_v<T>) return reduction;
  using Wide = typename Arithmetic<T>::Type;
  const T factor = static_cast<T>(static_cast<Wide>(1.0 / static_cast<double>(ranks)));
  reduction = {.op = ncclSum, .has_factor = true};
  std::memcpy(reduction.factor.data(), &factor, sizeof factor);
  return reduction;
}

template <typename T>
void fold_type(const std::vector<const std::byte*>& all, std::byte* to, std::size_t count, const Reduction& what,
               SumOrder order, std::size_t first, std::size_t step) {
  const Reduction reduction = resolve<T>(what, all.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = (first + i) / step % all.size();
    T sum = order == SumOrder::ring ? ring_sum<T>(all, i, reduction, begin) : tree_sum<T>(all, i, reduction, 0);
    if constexpr (std::is_integral_v<T>) {
      if (reduction.op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(all.size()));
    }
    std::memcpy(to + i * sizeof(T), &sum, sizeof sum);
  }
}

template <typename Function>
void with_type(ncclDataType_t type, const Function& function) {
  switch (type) {
    case ncclInt8: return function(std::int8_t{});
    case ncclUint8: return function(std::uint8_t{});
    case ncclInt32: return function(std::int32_t{});
    case ncclUint32: return function(std::uint32_t{});
    case ncclInt64: return function(std::int64_t{});
    case ncclUint64: return function(std::uint64_t{});
    case ncclFloat16: return function(__half{});
    case ncclFloat32: return function(float{});
    case ncclFloat64: return function(double{});
    case ncclBfloat16: return function(__nv_bfloat16{});
    default: return;  // refused before
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

void scale(std::byte* values, std::size_t count, ncclDataType_t type, const Reduction& reduction) {
  with_type(type, [&](auto example) {
    using T = decltype(example);
    for (std::size_t i = 0; i < count; ++i) {
      const T product = input<T>(values, i, reduction);
      std::memcpy(values + i * sizeof(T), &product, sizeof product);
    }
  });
}

void fold(const std::vector<const std::byte*>& all, std::byte* to, std::size_t count, ncclDataType_t type,
          const Reduction& reduction, SumOrder order, std::size_t first, std::size_t step) {
  with_type(type, [&](auto example) { fold_type<decltype(example)>(all, to, count, reduction, order, first, step); });
}

}  // namespace emulated_gpu
