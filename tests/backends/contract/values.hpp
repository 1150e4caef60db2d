// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operands of the contract suite. Inputs are small integers, so every sum is exact in every dtype and in any order
// of addition.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/convert.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::contract {

/// The types and operators that every back end has; types.cpp checks the others.
inline constexpr DType common_dtypes[] = {DType::float32, DType::float64, DType::int32,   DType::int64,
                                          DType::uint8,   DType::float16, DType::bfloat16};
inline constexpr ReduceOp arithmetic_ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// The memory of the suite's buffers: host memory, unless a back end's test overrides it.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual Allocation allocate(Bytes bytes) const { return allocate_host(bytes); }
  /// Returns whether the host reads and writes it without copies.
  [[nodiscard]] virtual bool is_on_host() const { return true; }
  /// Copies between this memory and host memory.
  virtual void copy(void* to, const void* from, Bytes bytes) const {
    std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
  }
  /// Returns whether operations on this memory are slow, so that fewer of them are tested.
  [[nodiscard]] virtual bool is_slow() const { return false; }
};

inline const Memory& host_memory() {
  static const Memory memory;
  return memory;
}

/// Up to 2 ranks, every operator is tested with every dtype. With more ranks, which share cores and are slower, every
/// operator is tested with float32, and one operator with each other dtype, because the plan of additions does not
/// depend on the dtype.
inline bool takes_all(const Communicator& c, const Memory& memory, DType dtype) {
  return dtype == DType::float32 || (c.size() <= 2 && !memory.is_slow());
}
inline std::span<const ReduceOp> ops_for(const Communicator& c, const Memory& memory, DType dtype) {
  const std::span<const ReduceOp> all(arithmetic_ops);
  return takes_all(c, memory, dtype) ? all : all.subspan(static_cast<std::size_t>(dtype) % all.size(), 1);
}

/// The values of a buffer's elements, which repeat after 7 of them. So a buffer is filled and compared as a block of
/// bytes, which takes a small part of the time that the operation takes.
class Pattern {
 public:
  static constexpr std::int64_t period = 7;
  /// @param value  returns the value of an element; called for the first `period` of them
  template <typename F>
  explicit Pattern(const F& value) {
    for (std::int64_t i = 0; i < period; ++i) values_[static_cast<std::size_t>(i)] = value(i);
  }
  [[nodiscard]] double at(std::int64_t element) const { return values_[static_cast<std::size_t>(element % period)]; }
  /// Returns the pattern of the elements from `first` on.
  [[nodiscard]] Pattern from(std::int64_t first) const {
    return Pattern([&](std::int64_t i) { return at(first + i); });
  }
  /// Returns the first `period` elements as a dtype has them.
  /// A boolean tells whether the value is not 0; both parts of a complex number have the value.
  [[nodiscard]] std::array<std::byte, 2 * period * sizeof(double)> encoded(DType dtype) const {
    std::array<std::byte, 2 * period * sizeof(double)> bytes{};
    const std::size_t parts = is_complex(dtype) ? 2 : 1;
    kernels::with_type(dtype, [&](auto type) {
      using T = decltype(type);
      // The 16-bit formats convert from float only.
      using Number = std::conditional_t<std::is_arithmetic_v<T>, double, float>;
      for (std::size_t i = 0; i < parts * period; ++i) {
        const double value = values_[i / parts];
        const auto element = static_cast<T>(static_cast<Number>(dtype == DType::boolean ? double(value != 0) : value));
        std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
      }
    });
    return bytes;
  }

 private:
  std::array<double, period> values_;
};

inline Pattern constant(double value) {
  return Pattern([&](std::int64_t) { return value; });
}

/// Returns a value in 0 … 6 that depends on rank, element and repetition.
inline int value_of(int rank, std::int64_t element, int repetition) {
  return static_cast<int>(
      (static_cast<std::int64_t>(rank) * 5 + element * 3 + static_cast<std::int64_t>(repetition) * 11) % 7);
}
inline Pattern values_of(int rank, int repetition) {
  return Pattern([&](std::int64_t i) { return value_of(rank, i, repetition); });
}

/// Returns a rank's input to a reduction. A product's factors are mostly 1, so that it fits into a uint8.
inline int input_of(int rank, std::int64_t element, int repetition, ReduceOp op) {
  const int value = value_of(rank, element, repetition);
  if (op != ReduceOp::product) return value;
  return value == 1 || value == 2 ? value + 1 : 1;
}
inline Pattern inputs_of(int rank, int repetition, ReduceOp op) {
  return Pattern([&](std::int64_t i) { return input_of(rank, i, repetition, op); });
}

/// Returns the reduction of the inputs of `ranks` ranks, of which the first is `first`, computed from its definition.
inline Pattern reduced(int ranks, int repetition, ReduceOp op, int first = 0) {
  return Pattern([&](std::int64_t element) {
    int result = input_of(first, element, repetition, op);
    for (int rank = first + 1; rank < first + ranks; ++rank) {
      const int value = input_of(rank, element, repetition, op);
      if (op == ReduceOp::product) result *= value;
      if (op == ReduceOp::sum) result += value;
      if (op == ReduceOp::min) result = std::min(result, value);
      if (op == ReduceOp::max) result = std::max(result, value);
      if (op == ReduceOp::logical_and) result = result != 0 && value != 0 ? 1 : 0;
      if (op == ReduceOp::logical_or) result = result != 0 || value != 0 ? 1 : 0;
      if (op == ReduceOp::logical_xor) result = (result != 0) != (value != 0) ? 1 : 0;
      if (op == ReduceOp::bit_and) result &= value;
      if (op == ReduceOp::bit_or) result |= value;
      if (op == ReduceOp::bit_xor) result ^= value;
    }
    return result;
  });
}

/// Elements of a dtype, filled and compared on the host. They are aligned to an element only; those of one byte are at
/// odd addresses. A guard follows them, which no operation may overwrite.
class Values {
 public:
  /// @param skipped  elements between the memory's aligned beginning and the first element
  Values(const Memory& memory, DType dtype, std::int64_t count, std::int64_t skipped = 1)
      : memory_(&memory),
        dtype_(dtype),
        count_(count),
        skipped_(skipped),
        allocation_(memory.allocate({(count + skipped) * size_of(dtype) + guard})),
        copy_(memory.is_on_host() ? 0 : static_cast<std::size_t>(allocation_.bytes().value)) {
    fill(constant(not_written));
    std::memset(element(count), guard_byte, guard);
  }

  /// Returns the elements as last filled.
  [[nodiscard]] Buffer buffer() {
    if (!copy_.empty() && !up_to_date_) memory_->copy(allocation_.data(), copy_.data(), allocation_.bytes());
    up_to_date_ = true;
    changed_ = true;
    return slice(Buffer{allocation_.data(), {skipped_ + count_}, dtype_, allocation_.kind()}, {skipped_}, {count_});
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  void fill(const Pattern& pattern) { fill(0, count_, pattern); }
  /// Writes `count` elements from `begin` on.
  void fill(std::int64_t begin, std::int64_t count, const Pattern& pattern) {
    const auto block = pattern.encoded(dtype_);
    const std::int64_t bytes = count * size_of(dtype_);
    std::int64_t written = std::min(bytes, Pattern::period * size_of(dtype_));
    std::byte* const to = element(begin);
    std::memcpy(to, block.data(), static_cast<std::size_t>(written));
    for (std::int64_t more = 0; written < bytes; written += more) {
      more = std::min(written, bytes - written);
      std::memcpy(to + written, to, static_cast<std::size_t>(more));
    }
    up_to_date_ = false;
  }
  [[nodiscard]] testing::AssertionResult holds(const Pattern& pattern) { return holds(0, count_, pattern); }
  /// Returns whether `count` elements from `begin` on have the pattern's values.
  [[nodiscard]] testing::AssertionResult holds(std::int64_t begin, std::int64_t count, const Pattern& pattern) {
    fetch();
    const auto block = pattern.encoded(dtype_);
    const auto bytes = static_cast<std::size_t>(count * size_of(dtype_));
    const auto one = static_cast<std::size_t>(size_of(dtype_));
    const std::size_t period = Pattern::period * one;
    const std::byte* const from = element(begin);
    // What equals itself, moved by a period, repeats its first period.
    if (std::memcmp(from, block.data(), std::min(bytes, period)) == 0 &&
        (bytes <= period || std::memcmp(from, from + period, bytes - period) == 0))
      return testing::AssertionSuccess();
    std::size_t wrong = 0;
    while (std::memcmp(from + wrong * one, block.data() + wrong * one % period, one) == 0) ++wrong;
    return testing::AssertionFailure() << "element " << begin + static_cast<std::int64_t>(wrong) << " is "
                                       << decoded(from + wrong * one) << " instead of "
                                       << decoded(block.data() + wrong * one % period);
  }
  [[nodiscard]] bool guard_intact() {
    fetch();
    const std::byte* const begin = element(count_);
    return std::all_of(begin, begin + guard, [](std::byte b) { return b == std::byte{guard_byte}; });
  }

 private:
  static constexpr std::int64_t guard = 64;
  static constexpr unsigned char guard_byte = 0x5a;
  static constexpr double not_written = 90;
  [[nodiscard]] std::byte* element(std::int64_t i) {
    return (copy_.empty() ? static_cast<std::byte*>(allocation_.data()) : copy_.data()) +
           (skipped_ + i) * size_of(dtype_);
  }
  [[nodiscard]] double decoded(const std::byte* from) const {
    double value = 0;
    kernels::with_type(dtype_, [&](auto type) {
      std::memcpy(&type, from, sizeof type);
      using Number = std::conditional_t<std::is_arithmetic_v<decltype(type)>, double, float>;
      value = static_cast<Number>(type);
    });
    return value;
  }
  void fetch() {
    if (!copy_.empty() && changed_) memory_->copy(copy_.data(), allocation_.data(), allocation_.bytes());
    changed_ = false;
  }
  const Memory* memory_;
  DType dtype_;
  std::int64_t count_;
  std::int64_t skipped_;
  Allocation allocation_;
  std::vector<std::byte> copy_;  // on the host; empty where the memory is there
  bool up_to_date_ = false;      // whether the memory has what was filled in
  bool changed_ = false;         // whether the memory may be newer than the copy
};

inline std::vector<std::int64_t> interesting_counts(int ranks) { return {0, 1, ranks - 1, ranks, ranks + 1, 1009}; }

/// Returns the same counts for every dtype on up to 2 ranks. With more ranks, dtypes other than float32 get one count
/// that leaves ranks without elements and one that is split into segments.
inline std::vector<std::int64_t> counts_for(const Communicator& c, const Memory& memory, DType dtype) {
  if (takes_all(c, memory, dtype)) return interesting_counts(c.size());
  return {c.size() - 1, 1009};
}

inline std::string label_of(Communicator& c, DType dtype, std::int64_t count) {
  return std::string(c.capabilities().backend) + " rank " + std::to_string(c.rank().value) + " of " +
         std::to_string(c.size()) + " " + std::string(name(dtype)) + " x " + std::to_string(count);
}

}  // namespace lockstep::contract
