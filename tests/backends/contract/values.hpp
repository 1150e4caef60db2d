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

inline constexpr DType all_dtypes[] = {DType::float32, DType::float64, DType::int32,   DType::int64,
                                       DType::uint8,   DType::float16, DType::bfloat16};
inline constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// The memory of the suite's buffers: host memory, unless a back end's test overrides it.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual Allocation allocate(Bytes bytes) const { return allocate_host(bytes); }
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
  const std::span<const ReduceOp> all(all_ops);
  return takes_all(c, memory, dtype) ? all : all.subspan(static_cast<std::size_t>(dtype) % all.size(), 1);
}

/// Returns a value in 0 … 6 that depends on rank, element and repetition.
inline int value_of(int rank, std::int64_t element, int repetition) {
  return static_cast<int>(
      (static_cast<std::int64_t>(rank) * 5 + element * 3 + static_cast<std::int64_t>(repetition) * 11) % 7);
}

/// Returns a rank's input to a reduction. A product's factors are mostly 1, so that it fits into a uint8.
inline int input_of(int rank, std::int64_t element, int repetition, ReduceOp op) {
  const int value = value_of(rank, element, repetition);
  if (op != ReduceOp::product) return value;
  return value == 1 || value == 2 ? value + 1 : 1;
}

/// Returns the reduction of all ranks' inputs, computed from its definition.
inline int reduced_by_definition(int ranks, std::int64_t element, int repetition, ReduceOp op) {
  int result = input_of(0, element, repetition, op);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = input_of(rank, element, repetition, op);
    if (op == ReduceOp::product) result *= value;
    if (op == ReduceOp::sum) result += value;
    if (op == ReduceOp::min) result = std::min(result, value);
    if (op == ReduceOp::max) result = std::max(result, value);
  }
  return result;
}

/// Returns the same from a cache. The values have a period of 7 elements, and nearly every call is for the next element
/// of the same operation.
inline int reduced(int ranks, std::int64_t element, int repetition, ReduceOp op) {
  struct Period {
    int ranks;
    int repetition;
    ReduceOp op;
    std::array<int, 7> results;
  };
  thread_local Period last{};
  if (last.ranks != ranks || last.repetition != repetition || last.op != op) {
    last = {ranks, repetition, op, {}};
    for (std::size_t i = 0; i < last.results.size(); ++i)
      last.results[i] = reduced_by_definition(ranks, static_cast<std::int64_t>(i), repetition, op);
  }
  return last.results[static_cast<std::size_t>(element) % last.results.size()];
}

/// Writes small integers as elements of a dtype, at any alignment.
inline void encode(std::span<const double> values, DType dtype, std::byte* data) {
  kernels::with_type(dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<T> elements(values.size());
    if constexpr (std::is_arithmetic_v<T>) {
      std::transform(values.begin(), values.end(), elements.begin(),
                     [](double value) { return static_cast<T>(value); });
    } else {
      const std::vector<float> wide(values.begin(), values.end());
      kernels::convert(std::span(wide), std::span(elements));
    }
    if (!elements.empty()) std::memcpy(data, elements.data(), elements.size() * sizeof(T));
  });
}

inline void decode(const std::byte* data, DType dtype, std::span<double> values) {
  kernels::with_type(dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<T> elements(values.size());
    if (!elements.empty()) std::memcpy(elements.data(), data, elements.size() * sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
      std::copy(elements.begin(), elements.end(), values.begin());
    } else {
      std::vector<float> wide(values.size());
      kernels::convert(std::span<const T>(elements), std::span(wide));
      std::copy(wide.begin(), wide.end(), values.begin());
    }
  });
}

/// Writes element i in host memory.
inline void store(void* data, DType dtype, std::int64_t i, double value) {
  encode(std::span(&value, 1), dtype, static_cast<std::byte*>(data) + i * size_of(dtype));
}
inline double load(const void* data, DType dtype, std::int64_t i) {
  double value = 0;
  decode(static_cast<const std::byte*>(data) + i * size_of(dtype), dtype, std::span(&value, 1));
  return value;
}

/// Elements of a dtype, read and written as small integers through a copy on the host. They are aligned to an element
/// only; those of one byte are at odd addresses. A guard follows them, which no operation may overwrite.
class Values {
 public:
  /// @param skipped  elements between the memory's aligned beginning and the first element
  Values(const Memory& memory, DType dtype, std::int64_t count, std::int64_t skipped = 1)
      : memory_(&memory),
        dtype_(dtype),
        skipped_(skipped),
        host_(static_cast<std::size_t>((count + skipped) * size_of(dtype)) + guard, std::byte{0x5a}),
        allocation_(memory.allocate({static_cast<std::int64_t>(host_.size())})),
        values_(static_cast<std::size_t>(count), not_written) {}

  /// Returns the elements as last set.
  [[nodiscard]] Buffer buffer() {
    if (!up_to_date_) {
      encode(values_, dtype_, first());
      memory_->copy(allocation_.data(), host_.data(), whole());
    }
    up_to_date_ = true;
    changed_ = true;
    return slice(Buffer{allocation_.data(), {skipped_ + count()}, dtype_, allocation_.kind()}, {skipped_}, {count()});
  }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  void set(std::int64_t i, int value) {
    values_[static_cast<std::size_t>(i)] = value;
    up_to_date_ = false;
  }
  [[nodiscard]] double get(std::int64_t i) {
    fetch();
    return values_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] bool guard_intact() {
    fetch();
    return std::all_of(host_.end() - guard, host_.end(), [](std::byte b) { return b == std::byte{0x5a}; });
  }

 private:
  static constexpr std::ptrdiff_t guard = 64;
  static constexpr double not_written = 90;
  [[nodiscard]] Bytes whole() const { return {static_cast<std::int64_t>(host_.size())}; }
  [[nodiscard]] std::byte* first() { return host_.data() + skipped_ * size_of(dtype_); }
  void fetch() {
    if (!changed_) return;
    memory_->copy(host_.data(), allocation_.data(), whole());
    decode(first(), dtype_, values_);
    changed_ = false;
  }
  const Memory* memory_;
  DType dtype_;
  std::int64_t skipped_;
  std::vector<std::byte> host_;
  Allocation allocation_;
  std::vector<double> values_;  // values of the host's copy
  bool up_to_date_ = false;     // whether the memory has the values that were set
  bool changed_ = false;        // whether the memory may be newer than the host's copy
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
