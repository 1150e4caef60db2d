// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/cuda/device/products.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Samples and hidden states of the block of a step.
constexpr int cell_tile = 16;
static_assert(cell_tile * cell_tile == threads_per_block);

/// The extents of a call. A row is a step of a sample: sample · steps + step. Gates are by direction, row, kind (i, f,
/// g, o) and hidden state, and so are cells, without a kind.
struct LstmExtents {
  std::int64_t samples;
  std::int64_t steps;
  std::int64_t features;
  std::int64_t hidden;
  std::int64_t directions;
  std::int64_t x_stride;  ///< elements of a row of the input in memory
  std::int64_t y_stride;
  const std::int32_t* lengths;  ///< null: all steps count

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t rows() const { return samples * steps; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t cells() const { return directions * rows() * hidden; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t gates() const { return 4 * hidden; }
  [[nodiscard]] __device__ bool is_length(std::int64_t n) const {
    return lengths == nullptr || (lengths[n] >= 0 && lengths[n] <= steps);
  }
  /// Whether a step is one of the sample's, which has none if its length is bad.
  [[nodiscard]] __device__ bool within(std::int64_t n, std::int64_t t) const {
    return lengths == nullptr || (is_length(n) && t < lengths[n]);
  }
  /// The step that is the k-th in a direction.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t step(std::int64_t direction, std::int64_t k) const {
    return direction == 0 ? k : steps - 1 - k;
  }
  [[nodiscard]] __device__ std::int64_t gate_at(std::int64_t direction, std::int64_t row, std::int64_t gate) const {
    return (direction * rows() + row) * gates() + gate;
  }
  [[nodiscard]] __device__ std::int64_t cell_at(std::int64_t direction, std::int64_t row, std::int64_t unit) const {
    return (direction * rows() + row) * hidden + unit;
  }
};

/// The parameters of a direction, or their gradients.
template <typename T>
struct LstmParameters {
  T* input;      ///< gates × features
  T* recurrent;  ///< gates × hidden
  T* input_bias;
  T* recurrent_bias;
};
template <typename T, typename Pointers>
LstmParameters<T> parameters_of(const Pointers& pointers, std::int64_t direction) {
  const auto at = [&](std::int64_t i) {
    return static_cast<T*>(pointers[static_cast<std::size_t>(4 * direction + i)]);
  };
  return {at(0), at(1), at(2), at(3)};
}

/// The parameters of both directions; the second one may not exist.
struct BothDirections {
  LstmParameters<const float> of[2];
};
BothDirections both_directions(const LstmExtents& all, const Arguments& call) {
  return {{parameters_of<const float>(call.parameters, 0),
           parameters_of<const float>(call.parameters, all.directions - 1)}};
}

/// What forward keeps, all of it in float32; an evaluation has it in the workspace.
struct LstmMemory {
  float* gates;
  float* cells;
  float* states;  ///< as cells

  LstmMemory(const LstmExtents& all, void* memory)
      : gates(static_cast<float*>(memory)), cells(gates + 4 * all.cells()), states(cells + all.cells()) {}
  static Bytes bytes(const LstmExtents& all) { return {6 * all.cells() * static_cast<std::int64_t>(sizeof(float))}; }
};

__device__ float squash(float x) { return 1 / (1 + std::exp(-x)); }

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

/// The k-th step of both directions. A thread has one hidden state of a sample.
template <typename E>
struct StepForward {
  LstmExtents all;
  BothDirections parameters;
  LstmMemory kept;
  void* y;
  std::int64_t k;

  __device__ void operator()() const {
    __shared__ float before_step[cell_tile][cell_tile];
    __shared__ float weights[4][cell_tile][cell_tile];
    const int x = static_cast<int>(threadIdx.x) % cell_tile;
    const int row = static_cast<int>(threadIdx.x) / cell_tile;
    const std::int64_t d = blockIdx.z;
    const float* recurrent = parameters.of[d].recurrent;
    const std::int64_t n = static_cast<std::int64_t>(blockIdx.y) * cell_tile + row;
    const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * cell_tile + x;
    const std::int64_t read_unit = static_cast<std::int64_t>(blockIdx.x) * cell_tile + row;
    const std::int64_t t = all.step(d, k);
    const std::int64_t before = k == 0 ? t : all.step(d, k - 1);
    float sums[4] = {};
    for (std::int64_t first = 0; k > 0 && first < all.hidden; first += cell_tile) {
      const std::int64_t from = first + x;
      const bool is_unit = from < all.hidden;
      before_step[row][x] =
          is_unit && n < all.samples ? kept.states[all.cell_at(d, n * all.steps + before, from)] : 0.0F;
      for (int gate = 0; gate < 4; ++gate)
        weights[gate][x][row] =
            is_unit && read_unit < all.hidden ? recurrent[(gate * all.hidden + read_unit) * all.hidden + from] : 0.0F;
      __syncthreads();
      for (int i = 0; i < cell_tile; ++i)
        for (int gate = 0; gate < 4; ++gate) sums[gate] += before_step[row][i] * weights[gate][i][x];
      __syncthreads();
    }
    if (n < all.samples && unit < all.hidden) finish(d, n, unit, t, before, sums);
  }

  __device__ void finish(std::int64_t d, std::int64_t n, std::int64_t unit, std::int64_t t, std::int64_t before,
                         const float (&sums)[4]) const {
    const std::int64_t row = n * all.steps + t;
    const std::int64_t to = row * all.y_stride + d * all.hidden + unit;
    float& cell = kept.cells[all.cell_at(d, row, unit)];
    float& state = kept.states[all.cell_at(d, row, unit)];
    if (!all.within(n, t)) {
      cell = state = 0;
      return store<E>(y, to, 0.0F);
    }
    float* const mine = kept.gates + all.gate_at(d, row, unit);
    const float i = squash(mine[0] + sums[0]);
    const float f = squash(mine[all.hidden] + sums[1]);
    const float g = std::tanh(mine[2 * all.hidden] + sums[2]);
    const float o = squash(mine[3 * all.hidden] + sums[3]);
    const float last = k == 0 ? 0.0F : kept.cells[all.cell_at(d, n * all.steps + before, unit)];
    mine[0] = i;
    mine[all.hidden] = f;
    mine[2 * all.hidden] = g;
    mine[3 * all.hidden] = o;
    cell = f * last + i * g;
    state = o * std::tanh(cell);
    store<E>(y, to, state);
  }
};

/// The same backward: from the gradients of the gates at the step behind to those of this one.
template <typename E>
struct StepBackward {
  LstmExtents all;
  BothDirections parameters;
  LstmMemory kept;
  const void* dy;
  float* d_gates;  ///< overwritten, as gates are
  float* d_cells;  ///< by direction, sample and hidden state, of the cell at the end of this step
  std::int64_t k;

  __device__ void operator()() const {
    __shared__ float of_gates[cell_tile][cell_tile];
    __shared__ float weights[cell_tile][cell_tile];
    const int x = static_cast<int>(threadIdx.x) % cell_tile;
    const int row = static_cast<int>(threadIdx.x) / cell_tile;
    const std::int64_t d = blockIdx.z;
    const float* recurrent = parameters.of[d].recurrent;
    const std::int64_t n = static_cast<std::int64_t>(blockIdx.y) * cell_tile + row;
    const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * cell_tile + x;
    const bool is_last = k == all.steps - 1;
    const std::int64_t behind = is_last ? 0 : all.step(d, k + 1);
    float sum = 0;
    for (std::int64_t first = 0; !is_last && first < all.gates(); first += cell_tile) {
      const bool reads_gate = first + x < all.gates() && n < all.samples;
      of_gates[row][x] = reads_gate ? d_gates[all.gate_at(d, n * all.steps + behind, first + x)] : 0.0F;
      const bool reads_weight = first + row < all.gates() && unit < all.hidden;
      weights[row][x] = reads_weight ? recurrent[(first + row) * all.hidden + unit] : 0.0F;
      __syncthreads();
      for (int i = 0; i < cell_tile; ++i) sum += of_gates[row][i] * weights[i][x];
      __syncthreads();
    }
    if (n < all.samples && unit < all.hidden) finish(d, n, unit, sum);
  }

  __device__ void finish(std::int64_t d, std::int64_t n, std::int64_t unit, float sum) const {
    const std::int64_t t = all.step(d, k);
    const std::int64_t row = n * all.steps + t;
    float* const to = d_gates + all.gate_at(d, row, unit);
    float& d_cell = d_cells[(d * all.samples + n) * all.hidden + unit];
    const float from_behind = k == all.steps - 1 ? 0.0F : d_cell;
    if (!all.within(n, t)) {
      for (std::int64_t gate = 0; gate < 4; ++gate) to[gate * all.hidden] = 0;
      d_cell = from_behind;
      return;
    }
    const float* const mine = kept.gates + all.gate_at(d, row, unit);
    const float i = mine[0];
    const float f = mine[all.hidden];
    const float g = mine[2 * all.hidden];
    const float o = mine[3 * all.hidden];
    const float last = k == 0 ? 0.0F : kept.cells[all.cell_at(d, n * all.steps + all.step(d, k - 1), unit)];
    const float squashed = std::tanh(kept.cells[all.cell_at(d, row, unit)]);
    const float d_state = load<E>(dy, row * all.y_stride + d * all.hidden + unit) + sum;
    const float dc = from_behind + d_state * o * (1 - squashed * squashed);
    to[0] = dc * g * i * (1 - i);
    to[all.hidden] = dc * last * f * (1 - f);
    to[2 * all.hidden] = dc * i * (1 - g * g);
    to[3 * all.hidden] = d_state * squashed * o * (1 - o);
    d_cell = dc * f;
  }
};

template <typename Step>
__global__ void __launch_bounds__(threads_per_block) take_step(Step step) {
  step();
}

/// Submits a step of all directions.
template <typename Step>
void submit_step(const Step& step, Queue queue) {
  const auto tiles = [](std::int64_t count) { return static_cast<unsigned>((count + cell_tile - 1) / cell_tile); };
  const dim3 grid(tiles(step.all.hidden), tiles(step.all.samples), static_cast<unsigned>(step.all.directions));
  static_cast<void>(cudaGetLastError());
  take_step<Step><<<grid, threads_per_block, 0, cuda_stream(queue)>>>(step);
  check_launch();
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
