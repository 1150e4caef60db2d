// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
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
    case ReduceOp::product: return T{1};
  }
  return {};
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
  switch (dtype) {
    case DType::float32: return fill(out, count, neutral<float>(op));
    case DType::float64: return fill(out, count, neutral<double>(op));
    case DType::int32: return fill(out, count, neutral<std::int32_t>(op));
    case DType::int64: return fill(out, count, neutral<std::int64_t>(op));
    case DType::uint8: return fill(out, count, neutral<std::uint8_t>(op));
    case DType::float16: return fill(out, count, narrowed<float16>(neutral<float>(op)));
    case DType::bfloat16: return fill(out, count, narrowed<bfloat16>(neutral<float>(op)));
  }
}

}  // namespace lockstep::kernels
