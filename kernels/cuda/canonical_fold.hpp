// SPDX-License-Identifier: Apache-2.0
#pragma once

// The canonical order of addition (collectives/plan/expression.hpp) for a GPU thread, which adds leaf after leaf
// without recursion. Like element.hpp, this is also plain C++.

#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels::cuda {

/// Adds leaves, or sums of full subtrees of them, that arrive one by one in ascending order, like a binary counter: bit
/// k of the number of leaves tells whether the sum of a full subtree of 2ᵏ leaves waits for its neighbor. Every sum is
/// rounded to the type, as if it had been sent.
///
/// Levels are template parameters, so that the sums have constant indices and stay in registers.
template <typename Format, typename Op>
class CanonicalSum {
 public:
  using Stored = typename Format::Stored;
  static constexpr int levels = 16;  // for Contributions::most_leaves

  /// Adds the sum of 2^level leaves. @pre their number so far is a multiple of 2^level, and stays below 2^levels
  LOCKSTEP_HOST_DEVICE void add(Stored sum, int level = 0) {
    carry<0>(sum, level);
    leaves_ += 1 << level;
  }
  /// Adds the remaining subtrees from the smallest upwards. @pre at least one leaf has been added
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Stored total() const { return from_lowest<0>(); }
  /// The same with the sum of all leaves that are left, which are fewer than those of any subtree that waits.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Stored total_with(Stored rest) const { return with_those_above<0>(rest); }

 private:
  LOCKSTEP_HOST_DEVICE static Stored pair(Stored lower, Stored upper) {
    return Format::narrow(Op::apply(Format::widen(lower), Format::widen(upper)));
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool has(int level) const { return (leaves_ >> level & 1) != 0; }

  // One call of the next level: with two, compilers would inline 2^levels of them.
  template <int level>
  LOCKSTEP_HOST_DEVICE void carry(Stored sum, int from) {
    if constexpr (level < levels) {
      if (level >= from && !has(level)) {
        sums_[level] = sum;
        return;
      }
      carry<level + 1>(level >= from ? pair(sums_[level], sum) : sum, from);
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

/// The operands of a sum in the canonical order, each with values for the same elements: this rank's own, and those of
/// all others, concatenated. An operand is a leaf of the tree or the sum of a subtree (`tree_nodes`).
struct Contributions {
  static constexpr int most = 2048;  // the arguments of a kernel have at most 4 KiB
  static constexpr int most_leaves = (1 << 16) - 1;
  /// The level of the last operand if its subtree is not full.
  static constexpr std::uint8_t rest = 255;

  const void* own;
  const void* others;
  int first;                      ///< the number of this rank's first operand among all, in ascending order
  int operands;                   ///< at most `most`
  std::int64_t count;             ///< elements of each operand
  int own_operands = 1;           ///< how many are this rank's
  std::int64_t own_stride = 0;    ///< elements from the beginning of one of these to the next
  std::uint8_t level[most] = {};  ///< of each operand: k for a subtree of 2ᵏ leaves, or `rest`

  /// The beginning of an operand.
  template <typename Stored>
  [[nodiscard]] LOCKSTEP_HOST_DEVICE const Stored* of(int operand) const {
    if (operand < first) return static_cast<const Stored*>(others) + operand * count;
    if (operand < first + own_operands) return static_cast<const Stored*>(own) + (operand - first) * own_stride;
    return static_cast<const Stored*>(others) + (operand - own_operands) * count;
  }
};

/// Element i of the sum of all operands.
template <typename Format, typename Op>
LOCKSTEP_HOST_DEVICE typename Format::Stored fold_element(const Contributions& in, std::int64_t i) {
  using Stored = typename Format::Stored;
  CanonicalSum<Format, Op> sum;
  const int full = in.operands - (in.level[in.operands - 1] == Contributions::rest ? 1 : 0);
  for (int operand = 0; operand < full; ++operand) sum.add(in.of<Stored>(operand)[i], in.level[operand]);
  return full == in.operands ? sum.total() : sum.total_with(in.of<Stored>(full)[i]);
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
