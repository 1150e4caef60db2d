// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/device/lstm_steps.cuh"
#include "ops/cuda/device/products.cuh"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

BothDirections both_directions(const LstmExtents& all, const Arguments& call) {
  return {{parameters_of<const float>(call.parameters, 0),
           parameters_of<const float>(call.parameters, all.directions - 1)}};
}

/// Submits the products of the inputs and the input weights, with the biases.
template <typename E>
void multiply_inputs(const LstmExtents& all, const Arguments& call, float* gates) {
  const void* x = call.inputs[0];
  for (std::int64_t d = 0; d < all.directions; ++d) {
    const auto weights = parameters_of<const float>(call.parameters, d);
    multiply_matrices<Along::second, Along::second>(
        {all.rows(), all.features, all.gates()},
        [=] __device__(std::int64_t row, std::int64_t c) { return load<E>(x, row * all.x_stride + c); },
        [=] __device__(std::int64_t gate, std::int64_t c) { return weights.input[gate * all.features + c]; },
        [=] __device__(std::int64_t row, std::int64_t gate, float sum) {
          gates[all.gate_at(d, row, gate)] = sum + (weights.input_bias[gate] + weights.recurrent_bias[gate]);
        },
        call.queue);
  }
}

/// Submits zeros to the channels of a tensor's padding.
template <typename E>
void clear_padding(std::int64_t rows, std::int64_t channels, std::int64_t stride, void* data, Queue queue) {
  const std::int64_t padding = stride - channels;
  for_each(
      rows * padding,
      [=] __device__(std::int64_t i) { store<E>(data, i / padding * stride + channels + i % padding, 0.0F); }, queue);
}

/// The number of samples minus the index of the first one with a bad length; 0: there is none.
struct BadLength {
  std::int64_t from_end;
  friend __device__ BadLength operator+(const BadLength& a, const BadLength& b) {
    return a.from_end > b.from_end ? a : b;
  }
};

/// Reports the first length that is negative or has more steps than there are.
void check_lengths(const LstmExtents& all, const Arguments& call, void* partials) {
  if (all.lengths == nullptr) return;
  Fault* fault = call.fault;
  const std::int32_t node = call.node;
  sum_rows<BadLength>(
      all.samples, 1,
      [=] __device__(std::int64_t n, std::int64_t /*column*/) {
        return BadLength{all.is_length(n) ? 0 : all.samples - n};
      },
      [=] __device__(std::int64_t /*column*/, const BadLength& bad) {
        if (bad.from_end == 0) return;
        const std::int64_t n = all.samples - bad.from_end;
        report(fault, {FaultCode::steps, node, n, all.lengths[n], all.steps});
      },
      partials, call.queue);
}

/// The workspace of the backward pass.
struct LstmGradients {
  float* gates;
  float* cells;
  void* partials;  ///< for sums in double

  LstmGradients(const LstmExtents& all, void* memory)
      : gates(static_cast<float*>(memory)),
        cells(gates + 4 * all.cells()),
        partials(cells + (all.directions * all.samples * all.hidden + 1) / 2 * 2) {}
  static Bytes bytes(const LstmExtents& all) {
    const std::int64_t floats = 4 * all.cells() + (all.directions * all.samples * all.hidden + 1) / 2 * 2;
    return {floats * static_cast<std::int64_t>(sizeof(float)) +
            RowParts(all.rows(), all.gates()).partials() * static_cast<std::int64_t>(sizeof(double))};
  }
};

template <typename E>
void run_forward(const LstmExtents& all, const Arguments& call, void* memory) {
  const LstmMemory kept(all, memory);
  check_lengths(all, call, memory);  // which is not used yet
  multiply_inputs<E>(all, call, kept.gates);
  const BothDirections parameters = both_directions(all, call);
  if (all.samples == 0) return;
  for (std::int64_t k = 0; k < all.steps; ++k)
    submit_step(StepForward<E>{all, parameters, kept, call.output, k}, call.queue);
  clear_padding<E>(all.rows(), all.directions * all.hidden, all.y_stride, call.output, call.queue);
}

/// Submits the gradients of a direction's parameters from those of its gates.
template <typename E>
void sum_parameter_gradients(const LstmExtents& all, std::int64_t d, const LstmMemory& kept, const LstmGradients& of,
                             const Arguments& call) {
  const auto to = parameters_of<float>(call.parameter_gradients, d);
  const void* x = call.inputs[0];
  const float* states = kept.states;
  const float* d_gates = of.gates;
  const auto gradient = [=] __device__(std::int64_t gate, std::int64_t row) {
    return d_gates[all.gate_at(d, row, gate)];
  };
  multiply_matrices<Along::first, Along::first>(
      {all.gates(), all.rows(), all.features}, gradient,
      [=] __device__(std::int64_t c, std::int64_t row) {
        const Division at = divide(row, all.steps);
        return all.within(at.quotient, at.remainder) ? load<E>(x, row * all.x_stride + c) : 0.0F;
      },
      [=] __device__(std::int64_t gate, std::int64_t c, float sum) { to.input[gate * all.features + c] = sum; },
      call.queue);
  multiply_matrices<Along::first, Along::first>(
      {all.gates(), all.rows(), all.hidden}, gradient,
      [=] __device__(std::int64_t unit, std::int64_t row) {
        const std::int64_t t = divide(row, all.steps).remainder;
        const bool is_first = d == 0 ? t == 0 : t == all.steps - 1;
        return is_first ? 0.0F : states[all.cell_at(d, d == 0 ? row - 1 : row + 1, unit)];
      },
      [=] __device__(std::int64_t gate, std::int64_t unit, float sum) { to.recurrent[gate * all.hidden + unit] = sum; },
      call.queue);
  sum_rows<double>(
      all.rows(), all.gates(),
      [=] __device__(std::int64_t row, std::int64_t gate) {
        return static_cast<double>(d_gates[all.gate_at(d, row, gate)]);
      },
      [=] __device__(std::int64_t gate, double sum) {
        to.input_bias[gate] = static_cast<float>(sum);
        to.recurrent_bias[gate] = static_cast<float>(sum);
      },
      of.partials, call.queue);
}

/// Submits the gradient of the input from those of all gates.
template <typename E>
void multiply_gates(const LstmExtents& all, const float* d_gates, const Arguments& call) {
  void* dx = call.input_gradients[0];
  if (dx == nullptr) return;
  const BothDirections parameters = both_directions(all, call);
  multiply_matrices<Along::second, Along::first>(
      {all.rows(), all.directions * all.gates(), all.features},
      [=] __device__(std::int64_t row, std::int64_t i) {
        const Division gate = divide(i, all.gates());
        return d_gates[all.gate_at(gate.quotient, row, gate.remainder)];
      },
      [=] __device__(std::int64_t c, std::int64_t i) {
        const Division gate = divide(i, all.gates());
        return parameters.of[gate.quotient].input[gate.remainder * all.features + c];
      },
      [=] __device__(std::int64_t row, std::int64_t c, float sum) { store<E>(dx, row * all.x_stride + c, sum); },
      call.queue);
  clear_padding<E>(all.rows(), all.features, all.x_stride, dx, call.queue);
}

template <typename E>
void run_backward(const LstmExtents& all, const Arguments& call) {
  const LstmMemory kept(all, call.saved);
  const LstmGradients gradients(all, call.workspace);
  const BothDirections parameters = both_directions(all, call);
  for (std::int64_t k = all.steps - 1; k >= 0 && all.samples > 0; --k) {
    submit_step(StepBackward<E>{all, parameters, kept, call.output_gradient, gradients.gates, gradients.cells, k},
                call.queue);
  }
  for (std::int64_t d = 0; d < all.directions; ++d) sum_parameter_gradients<E>(all, d, kept, gradients, call);
  multiply_gates<E>(all, gradients.gates, call);
}

template <typename E>
Implementation lstm(const Lstm& op, Formats in, const Format& out) {
  const TensorView x = view_of(in[0]);
  const TensorView y = view_of(out);
  const LstmExtents extents{.samples = x.samples,
                            .steps = x.width,
                            .features = x.channels,
                            .hidden = op.hidden,
                            .directions = op.bidirectional ? 2 : 1,
                            .x_stride = x.padded,
                            .y_stride = y.padded,
                            .lengths = nullptr};
  const auto with_lengths = [=](const Arguments& call) {
    LstmExtents all = extents;
    if (call.inputs.size() == 2) all.lengths = static_cast<const std::int32_t*>(call.inputs[1]);
    return all;
  };
  const Bytes check{RowParts(x.samples, 1).partials() * static_cast<std::int64_t>(sizeof(BadLength))};
  const Bytes kept = std::max(LstmMemory::bytes(extents), check);
  return {.traits = {.inputs = {in.begin(), in.end()},
                     .output = out,
                     .saved = kept,
                     .workspace = std::max(kept, LstmGradients::bytes(extents)),
                     .backward_reads_output = false},
          .forward =
              [=](const Arguments& call) {
                run_forward<E>(with_lengths(call), call, call.saved == nullptr ? call.workspace : call.saved);
              },
          .backward = [=](const Arguments& call) { run_backward<E>(with_lengths(call), call); }};
}

}  // namespace

Implementation make(const Lstm& op, Formats in, const Signature& signature) {
  const Format out = nhwc(signature.output, in[0].dtype);
  return with_elements(in[0].dtype, [&](auto e) { return lstm<decltype(e)>(op, in, out); });
}

}  // namespace lockstep::ops::cuda
