// SPDX-License-Identifier: Apache-2.0
#pragma once

// The canonical order of addition (collectives/plan/expression.hpp) for a GPU thread, which adds leaf after leaf
// without recursion. Like element.hpp, this is also plain C++.

#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels::cuda {

/// Adds leaves that arrive one by one in ascending order, like a binary counter: bit k of their number tells whether
/// the sum of a full subtree of 2ᵏ leaves waits for its neighbor. Every sum is rounded to the type, as if it had been
/// sent.
///
/// Levels are template parameters, so that the sums have constant indices and stay in registers.
template <typename Format, typename Op>
class CanonicalSum {
 public:
  using Stored = typename Format::Stored;
  static constexpr int levels = 16;
  static constexpr int max_leaves = (1 << levels) - 1;

  /// @pre fewer than max_leaves have been added
  LOCKSTEP_HOST_DEVICE void add(Stored leaf) {
    carry<0>(leaf);
    ++leaves_;
  }
  /// Adds the remaining subtrees from the smallest upwards. @pre at least one leaf has been added
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Stored total() const { return from_lowest<0>(); }

 private:
  LOCKSTEP_HOST_DEVICE static Stored pair(Stored lower, Stored upper) {
    return Format::narrow(Op::apply(Format::widen(lower), Format::widen(upper)));
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool has(int level) const { return (leaves_ >> level & 1) != 0; }

  template <int level>
  LOCKSTEP_HOST_DEVICE void carry(Stored sum) {
    if constexpr (level < levels) {
      if (has(level)) {
        carry<level + 1>(pair(sums_[level], sum));
      } else {
        sums_[level] = sum;
      }
    }
  }
  template <int level>
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Stored from_lowest() const {
    if constexpr (level == levels) {
      return Stored{};
    } else {
      return has(level) ? with_those_above<level + 1>(sums_[level]) : from_lowest<level + 1>();
    }
  }
  template <int level>
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Stored with_those_above(Stored sum) const {
    if constexpr (level == levels) {
      return sum;
    } else {
      return with_those_above<level + 1>(has(level) ? pair(sums_[level], sum) : sum);
    }
  }

  int leaves_ = 0;
  Stored sums_[levels] = {};
};

/// The contributions of the ranks to the same elements: this rank's own, and those of all others concatenated by rank.
struct Contributions {
  const void* own;
  const void* others;
  int rank;
  int ranks;
  std::int64_t count;  ///< elements of each contribution

  /// The beginning of the contribution of `leaf`.
  template <typename Stored>
  [[nodiscard]] LOCKSTEP_HOST_DEVICE const Stored* of(int leaf) const {
    if (leaf == rank) return static_cast<const Stored*>(own);
    return static_cast<const Stored*>(others) + (leaf < rank ? leaf : leaf - 1) * count;
  }
};

/// Element i of the sum of all contributions.
template <typename Format, typename Op>
LOCKSTEP_HOST_DEVICE typename Format::Stored fold_element(const Contributions& in, std::int64_t i) {
  CanonicalSum<Format, Op> sum;
  for (int leaf = 0; leaf < in.ranks; ++leaf) sum.add(in.of<typename Format::Stored>(leaf)[i]);
  return sum.total();
}

/// Calls f with the format of the elements and the operator, if it is arithmetic. @tparam Arithmetic  has unsigned
/// integers, so that sums wrap around. @tparam Order  has the integers' own signs, for min and max
template <typename Arithmetic, typename Order, typename F>
void with_operator(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return f(Arithmetic{}, Sum{});
    case ReduceOp::min: return f(Order{}, Min{});
    case ReduceOp::max: return f(Order{}, Max{});
    case ReduceOp::product: return f(Arithmetic{}, Product{});
    default: return;  // there is none for logical and bitwise operators
  }
}

template <typename F>
void with_arithmetic(DType dtype, ReduceOp op, const F& f) {
  switch (dtype) {
    case DType::float32: return with_operator<Plain<float>, Plain<float>>(op, f);
    case DType::float64: return with_operator<Plain<double>, Plain<double>>(op, f);
    case DType::int32: return with_operator<Plain<std::uint32_t>, Plain<std::int32_t>>(op, f);
    case DType::int64: return with_operator<Plain<std::uint64_t>, Plain<std::int64_t>>(op, f);
    case DType::uint8: return with_operator<Plain<std::uint8_t>, Plain<std::uint8_t>>(op, f);
    case DType::float16: return with_operator<Float16, Float16>(op, f);
    case DType::bfloat16: return with_operator<BFloat16, BFloat16>(op, f);
    default: return;  // NCCL's back end takes no others
  }
}

}  // namespace lockstep::kernels::cuda
