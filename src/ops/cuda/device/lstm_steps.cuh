// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/formulas/functions.hpp"

/// The steps of an LSTM, forward and backward: a kernel for each, which multiplies by the recurrent weights and passes
/// the gates.
namespace lockstep::ops::cuda {

/// Samples and hidden states of the block of a step.
inline constexpr int cell_tile = 16;
static_assert(cell_tile * cell_tile == threads_per_block);

/// The extents of a call. A row is a step of a sample: sample · steps + step. Gates are by direction, row, kind (i, f,
/// g, o) and hidden state, and so are cells, without a kind.
struct LstmExtents {
  std::int64_t samples;
  Divisor steps;
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

/// What forward keeps, all of it in float32; an evaluation has it in the workspace.
struct LstmMemory {
  float* gates;
  float* cells;
  float* states;  ///< as cells

  LstmMemory(const LstmExtents& all, void* memory)
      : gates(static_cast<float*>(memory)), cells(gates + 4 * all.cells()), states(cells + all.cells()) {}
  static Bytes bytes(const LstmExtents& all) { return {6 * all.cells() * static_cast<std::int64_t>(sizeof(float))}; }
};

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
    const SigmoidFunction<float> sigmoid;
    const float i = sigmoid.value(mine[0] + sums[0]);
    const float f = sigmoid.value(mine[all.hidden] + sums[1]);
    const float g = std::tanh(mine[2 * all.hidden] + sums[2]);
    const float o = sigmoid.value(mine[3 * all.hidden] + sums[3]);
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

}  // namespace lockstep::ops::cuda
