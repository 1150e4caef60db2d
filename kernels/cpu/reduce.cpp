#include "lockstep/kernels/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep::kernels {
namespace {

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
  template <typename T>
  static constexpr T neutral = std::is_integral_v<T> ? T{0} : -T{0};
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
  template <typename T>
  static constexpr T neutral = std::is_integral_v<T> ? std::numeric_limits<T>::max()
                                                     : std::numeric_limits<T>::infinity();
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
  template <typename T>
  static constexpr T neutral = std::is_integral_v<T> ? std::numeric_limits<T>::lowest()
                                                     : -std::numeric_limits<T>::infinity();
};

template <typename T, typename Op>
void reduce_typed(void* out, const void* a, const void* b, std::int64_t count) {
  auto* result = static_cast<T*>(out);
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  // Each element depends on its own index only, so the loop may be vectorised although `out` may be `a` or `b`.
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) result[i] = Op::apply(left[i], right[i]);
}

template <typename T, typename Op>
void fill_typed(void* out, std::int64_t count) {
  std::fill_n(static_cast<T*>(out), count, Op::template neutral<T>);
}

/// Calls `visitor` with a value of the element type and one of the operator.
template <typename Visitor>
void dispatch(DType dtype, ReduceOp op, const Visitor& visitor) {
  const auto with_op = [&](auto element) {
    switch (op) {
      case ReduceOp::sum: return visitor(element, Sum{});
      case ReduceOp::min: return visitor(element, Min{});
      case ReduceOp::max: return visitor(element, Max{});
    }
  };
  switch (dtype) {
    case DType::float32: return with_op(float{});
    case DType::float64: return with_op(double{});
    case DType::int32: return with_op(std::int32_t{});
    case DType::int64: return with_op(std::int64_t{});
    case DType::uint8: return with_op(std::uint8_t{});
  }
}

}  // namespace

void reduce(void* out, const void* a, const void* b, Count count, DType dtype, ReduceOp op) {
  dispatch(dtype, op, [&](auto element, auto operation) {
    reduce_typed<decltype(element), decltype(operation)>(out, a, b, count.value);
  });
}

void fill_neutral(void* out, Count count, DType dtype, ReduceOp op) {
  dispatch(dtype, op,
           [&](auto element, auto operation) { fill_typed<decltype(element), decltype(operation)>(out, count.value); });
}

}  // namespace lockstep::kernels
