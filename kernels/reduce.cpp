// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "kernels/convert.hpp"
#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {
namespace {

template <typename T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return Limits::is_integer ? T{0} : -T{0};
    case ReduceOp::min: return Limits::is_integer ? Limits::max() : Limits::infinity();
    case ReduceOp::max: return Limits::is_integer ? Limits::lowest() : -Limits::infinity();
    case ReduceOp::logical_and:
    case ReduceOp::product: return T{1};
    case ReduceOp::bit_and: return static_cast<T>(-1);
    case ReduceOp::logical_or:
    case ReduceOp::logical_xor:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor: break;
  }
  return T{0};
}

template <typename T>
void fill(void* out, Count count, T value) {
  std::fill_n(static_cast<T*>(out), count.value, value);
}

template <typename Half>
Half narrowed(float value) {
  Half half;
  convert(std::span<const float>(&value, 1), std::span<Half>(&half, 1));
  return half;
}

/// The longest input that is prefetched after another core has just written it. For longer inputs the processor's own
/// prefetcher does better, until the input is in no cache. This was measured between two ranks.
constexpr std::int64_t longest_prefetched = 64 * 1024;

}  // namespace

void combine(std::span<void* const> outs, std::span<const void* const> ins, Count count, DType dtype, ReduceOp op,
             Residence residence) {
  const bool copy = ins.size() == 1;
  const std::int64_t elements = copy ? count.value * size_of(dtype) : count.value;
  const bool far = residence == Residence::memory;
  const bool in_place =
      std::find_first_of(outs.begin(), outs.end(), ins.begin(), ins.end(), std::equal_to<>()) != outs.end();
  if (copy && outs.size() == 1 && outs[0] == ins[0]) return;
  combine(widest_instruction_set(),
          {.outs = outs.data(),
           .out_count = static_cast<std::int64_t>(outs.size()),
           .ins = ins.data(),
           .in_count = static_cast<std::int64_t>(ins.size()),
           .elements = elements,
           .streaming = far && !in_place,
           .prefetch = far || count.value * size_of(dtype) <= longest_prefetched},
          dtype, op);
}

void reduce(void* out, const void* a, const void* b, Count count, DType dtype, ReduceOp op) {
  void* const outs[] = {out};
  const void* const ins[] = {a, b};
  combine(outs, ins, count, dtype, op);
}

void fill_neutral(void* out, Count count, DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) {
    const bool is_and =
        op == ReduceOp::min || op == ReduceOp::product || op == ReduceOp::logical_and || op == ReduceOp::bit_and;
    return fill(out, count, static_cast<std::uint8_t>(is_and ? 1 : 0));
  }
  if (is_complex(dtype)) return fill_neutral(out, 2 * count, real_of(dtype), op);
  with_type(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_arithmetic_v<T>) {
      fill(out, count, neutral<T>(op));
    } else {
      fill(out, count, narrowed<T>(neutral<float>(op)));
    }
  });
}

void divide(const Buffer& numbers, int divisor) {
  const Buffer values = real_parts(numbers);
  with_type(values.dtype, [&](auto element) {
    using T = decltype(element);
    // The caller's elements may be at any address, so they pass through an aligned array, some at a time.
    constexpr std::int64_t most = 512;
    std::array<T, most> narrow;
    auto* at = static_cast<std::byte*>(values.data);
    for (std::int64_t left = values.count.value; left > 0; left -= most) {
      const std::span some(narrow.data(), static_cast<std::size_t>(std::min(left, most)));
      std::memcpy(some.data(), at, some.size_bytes());
      if constexpr (std::is_arithmetic_v<T>) {
        // The divisor need not fit into the element: an average of uint8 may be over 256 ranks or more.
        using Wide = std::common_type_t<T, int>;
        for (T& value : some) value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
      } else {
        std::array<float, most> wide;
        const std::span floats(wide.data(), some.size());
        convert(std::span<const T>(some), floats);
        for (float& value : floats) value /= static_cast<float>(divisor);
        convert(std::span<const float>(floats), some);
      }
      std::memcpy(at, some.data(), some.size_bytes());
      at += some.size_bytes();
    }
  });
}

// The target attribute enables the instruction; otherwise compilers emit one that prefetches for reading. It is a no-op
// on x86 processors that do not have it.
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void prefetch_for_writing(const std::byte* begin, Bytes bytes) {
  constexpr std::int64_t line = 64;
  for (std::int64_t at = 0; at < bytes.value; at += line) __builtin_prefetch(begin + at, 1);
}

}  // namespace lockstep::kernels
