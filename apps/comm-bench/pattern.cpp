// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/pattern.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/split_mix.hpp"
#include "kernels/convert.hpp"

namespace lockstep::comm_bench {
namespace {

/// Returns well-mixed bits.
std::uint64_t mix(int rank, std::int64_t element, std::int64_t repetition) {
  return split_mix::mix(static_cast<std::uint64_t>(element) * split_mix::golden_ratio +
                        static_cast<std::uint64_t>(rank) * 0xd1b54a32d192ed03ULL +
                        static_cast<std::uint64_t>(repetition));
}

template <typename T>
T element_of(std::uint64_t value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    const auto wide = static_cast<float>(value);
    T element;
    kernels::convert(std::span(&wide, 1), std::span(&element, 1));
    return element;
  }
}

/// Splits `count` elements of the sequence, from `first` on, at the ends of periods. Calls piece(offset, index in the
/// period, count).
template <typename F>
void for_each_piece(std::int64_t count, std::int64_t first, const F& piece) {
  for (std::int64_t offset = 0; offset < count;) {
    const std::int64_t index = (first + offset) % Pattern::period;
    const std::int64_t length = std::min(Pattern::period - index, count - offset);
    piece(offset, index, length);
    offset += length;
  }
}

}  // namespace

Pattern::Pattern(DType dtype, int ranks)
    : dtype_(dtype), ranks_(ranks), tile_(static_cast<std::size_t>(period * size_of(dtype))) {}

void Pattern::set_input(int rank, std::int64_t repetition) { set(rank, rank, repetition); }

void Pattern::set_sum(std::int64_t repetition) { set(0, ranks_ - 1, repetition); }

void Pattern::set(int first_rank, int last_rank, std::int64_t repetition) {
  const auto values = static_cast<std::uint64_t>(std::clamp(256 / ranks_, 2, 128));  // values are 0 … values − 1
  kernels::with_type(dtype_, [&](auto zero) {
    for (std::int64_t i = 0; i < period; ++i) {
      std::uint64_t sum = 0;
      for (int rank = first_rank; rank <= last_rank; ++rank) sum += mix(rank, i, repetition) % values;
      const auto element = element_of<decltype(zero)>(sum);
      std::memcpy(tile_.data() + static_cast<std::size_t>(i) * sizeof element, &element, sizeof element);
    }
  });
}

void Pattern::write(const Buffer& to, std::int64_t first) const {
  const std::int64_t width = size_of(dtype_);
  for_each_piece(to.count.value, first, [&](std::int64_t offset, std::int64_t index, std::int64_t length) {
    std::memcpy(static_cast<std::byte*>(to.data) + offset * width, tile_.data() + index * width,
                static_cast<std::size_t>(length * width));
  });
}

std::int64_t Pattern::differences(const ConstBuffer& in, std::int64_t first) const {
  const std::int64_t width = size_of(dtype_);
  const auto equal = [&](const std::byte* a, const std::byte* b, std::int64_t length) {
    return std::memcmp(a, b, static_cast<std::size_t>(length * width)) == 0;
  };
  std::int64_t different = 0;
  for_each_piece(in.count.value, first, [&](std::int64_t offset, std::int64_t index, std::int64_t length) {
    const std::byte* actual = static_cast<const std::byte*>(in.data) + offset * width;
    const std::byte* expected = tile_.data() + index * width;
    if (equal(actual, expected, length)) return;
    for (std::int64_t i = 0; i < length; ++i) {
      if (!equal(actual + i * width, expected + i * width, 1)) ++different;
    }
  });
  return different;
}

}  // namespace lockstep::comm_bench
