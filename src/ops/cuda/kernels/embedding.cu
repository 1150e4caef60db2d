// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

struct Tokens {
  const std::int32_t* data;
  std::int64_t count;
  std::int64_t entries;

  [[nodiscard]] __device__ bool is_entry(std::int64_t i) const { return data[i] >= 0 && data[i] < entries; }
  /// Returns the token; the first entry is used in the place of one that is no entry.
  [[nodiscard]] __device__ std::int64_t at(std::int64_t i) const { return is_entry(i) ? data[i] : 0; }
};

/// The place of the first bad token counted from the end; 0: there is none.
struct FromEnd {
  std::int64_t value;
  friend __device__ FromEnd operator+(const FromEnd& a, const FromEnd& b) { return a.value > b.value ? a : b; }
};

/// Reports the first token that is no entry.
void check_tokens(const Tokens& tokens, std::int64_t steps, const Arguments& call) {
  Fault* fault = call.fault;
  const std::int32_t node = call.node;
  sum_rows<FromEnd>(
      tokens.count, 1,
      [=] __device__(std::int64_t i, std::int64_t /*column*/) {
        return FromEnd{tokens.is_entry(i) ? 0 : tokens.count - i};
      },
      [=] __device__(std::int64_t /*column*/, const FromEnd& bad) {
        if (bad.value == 0) return;
        const std::int64_t i = tokens.count - bad.value;
        report(fault, {FaultCode::token, node, i / steps, tokens.data[i], tokens.entries});
      },
      call.workspace, call.queue);
}

template <typename E>
void look_up(const Tokens& tokens, const TensorView& out, const Arguments& call) {
  const auto* table = static_cast<const float*>(call.parameters[0]);
  void* to = call.output;
  for_each(
      out.elements(),
      [=] __device__(std::int64_t i) {
        const Division at = divide(i, out.padded);
        const std::int64_t row = tokens.at(at.quotient) * out.channels;
        store<E>(to, i, at.remainder < out.channels ? table[row + at.remainder] : 0.0F);
      },
      call.queue);
}

/// Sorts the positions by their tokens, then by themselves: each counts those before it. That is quadratic, and still
/// takes a few ms only for the 100,000 positions of a large batch.
void sort_positions(const Tokens& tokens, std::int64_t* sorted, Queue queue) {
  for_each(
      tokens.count,
      [=] __device__(std::int64_t i) {
        const std::int64_t own = tokens.at(i);
        std::int64_t before = 0;
        for (std::int64_t j = 0; j < tokens.count; ++j) {
          const std::int64_t other = tokens.at(j);
          before += other < own || (other == own && j < i) ? 1 : 0;
        }
        sorted[before] = i;
      },
      queue);
}

/// Writes where the sorted positions of each entry begin, and after the last entry their number.
void find_entries(const Tokens& tokens, const std::int64_t* sorted, std::int64_t* begins, Queue queue) {
  for_each(
      tokens.entries + 1,
      [=] __device__(std::int64_t entry) {
        std::int64_t begin = 0;
        std::int64_t end = tokens.count;
        while (begin < end) {
          const std::int64_t middle = (begin + end) / 2;
          if (tokens.at(sorted[middle]) < entry) {
            begin = middle + 1;
          } else {
            end = middle;
          }
        }
        begins[entry] = begin;
      },
      queue);
}

/// A frequent token has many gradients, so they are summed in double, in the order of the positions.
template <typename E>
void sum_gradients(const Embedding& op, const TensorView& out, const std::int64_t* sorted, const std::int64_t* begins,
                   const Arguments& call) {
  const void* dy = call.output_gradient;
  auto* gradients = static_cast<float*>(call.parameter_gradients[0]);
  const std::int64_t without = op.padding_index ? *op.padding_index : -1;
  const Divisor features(out.channels);
  for_each(
      op.entries * out.channels,
      [=] __device__(std::int64_t i) {
        const auto [entry, feature] = divide(i, features);
        double sum = 0;
        if (entry != without)
          for (std::int64_t at = begins[entry]; at < begins[entry + 1]; ++at)
            sum += static_cast<double>(load<E>(dy, sorted[at] * out.padded + feature));
        gradients[i] = static_cast<float>(sum);
      },
      call.queue);
}

template <typename E>
Implementation embedding(const Embedding& op, const Format& in, const Format& out) {
  const TensorView view = view_of(out);
  const std::int64_t count = in.shape.count();
  const std::int64_t steps = in.shape.width;
  const auto tokens = [=](const Arguments& call) {
    return Tokens{static_cast<const std::int32_t*>(call.inputs[0]), count, op.entries};
  };
  constexpr auto size = static_cast<std::int64_t>(sizeof(std::int64_t));
  const std::int64_t check = RowParts(count, 1).partials() * size;
  return {.traits = {.inputs = {in},
                     .output = out,
                     .workspace = {std::max(check, (count + op.entries + 1) * size)},
                     .backward_reads_output = false},
          .forward =
              [=](const Arguments& call) {
                check_tokens(tokens(call), steps, call);
                look_up<E>(tokens(call), view, call);
              },
          .backward =
              [=](const Arguments& call) {
                auto* sorted = static_cast<std::int64_t*>(call.workspace);
                sort_positions(tokens(call), sorted, call.queue);
                find_entries(tokens(call), sorted, sorted + count, call.queue);
                sum_gradients<E>(op, view, sorted, sorted + count, call);
              }};
}

}  // namespace

Implementation make(const Embedding& op, Formats in, const Signature& signature, DType reals) {
  const Format out = nhwc(signature.output, reals);
  return with_elements(reals, [&](auto e) { return embedding<decltype(e)>(op, in[0], out); });
}

}  // namespace lockstep::ops::cuda
