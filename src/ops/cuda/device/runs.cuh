// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/device/launch.cuh"

/// Kernels in which several threads work together on a run of elements, for instance on the classes of a position.
namespace lockstep::ops::cuda {

/// The threads of a block that work on one run.
template <int size>
struct Team {
  static constexpr int count = threads_per_block / size;  ///< number of teams of a block
  int index;
  int lane;
  __device__ Team() : index(static_cast<int>(threadIdx.x) / size), lane(static_cast<int>(threadIdx.x) % size) {}

  /// Joins the values of all lanes in a fixed order. All threads of the block call it together.
  template <typename T, typename Join>
  __device__ T all(const T& value, const Join& join) const {
    __shared__ T values[threads_per_block];
    T* const mine = values + threadIdx.x;
    *mine = value;
    __syncthreads();
    for (int half = size / 2; half > 0; half /= 2) {
      if (lane < half) *mine = join(*mine, mine[half]);
      __syncthreads();
    }
    const T result = values[index * size];
    __syncthreads();
    return result;
  }
  template <typename T>
  __device__ T sum(const T& value) const {
    return all(value, [](const T& a, const T& b) { return a + b; });
  }
};

template <int size, typename Body>
__global__ void __launch_bounds__(threads_per_block) each_run(Body body, std::int64_t runs) {
  const Team<size> team;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * team.count;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * team.count; first < runs; first += step) {
    const bool exists = first + team.index < runs;
    body(exists ? first + team.index : first, exists, team);
  }
}

/// Submits body(run, exists, team) for each run, by all threads of a team. Where `exists` is false, the team has no run
/// and only takes part in `Team::all`.
template <int size, typename Body>
void for_each_run(std::int64_t runs, const Body& body, Queue queue) {
  if (runs <= 0) return;
  constexpr std::int64_t most_blocks = 1 << 16;
  const auto blocks = static_cast<unsigned>(std::min((runs + Team<size>::count - 1) / Team<size>::count, most_blocks));
  static_cast<void>(cudaGetLastError());
  each_run<size, Body><<<blocks, threads_per_block, 0, cuda_stream(queue)>>>(body, runs);
  check_launch();
}

/// Returns the number of blocks that share the runs of a sum; it depends on the number of runs only.
template <int size>
std::int64_t parts_of_runs(std::int64_t runs) {
  return std::clamp<std::int64_t>(runs / (4 * Team<size>::count), 1, 512);
}

template <int size, typename T, typename Of>
__global__ void __launch_bounds__(threads_per_block)
    sum_part_of_runs(Of of, T* partials, std::int64_t runs, std::int64_t parts) {
  __shared__ T sums[threads_per_block / size];
  const Team<size> team;
  const std::int64_t end = runs * (blockIdx.x + 1) / parts;
  T sum{};
  for (std::int64_t first = runs * blockIdx.x / parts; first < end; first += team.count) {
    const bool exists = first + team.index < end;
    const T value = of(exists ? first + team.index : first, team);
    if (exists) sum = sum + value;
  }
  if (team.lane == 0) sums[team.index] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < team.count; ++i) sum = sum + sums[i];
  partials[blockIdx.x] = sum;
}

/// Submits finish(Σ of(run, team)), where `of` is called by all threads of a team and the value of lane 0 counts.
/// @tparam T         as in `sum_rows`
/// @param  partials  memory for `parts_of_runs` values
template <int size, typename T, typename Of, typename Finish>
void sum_runs(std::int64_t runs, const Of& of, const Finish& finish, void* partials, Queue queue) {
  const std::int64_t parts = parts_of_runs<size>(runs);
  T* const to = static_cast<T*>(partials);
  static_cast<void>(cudaGetLastError());
  sum_part_of_runs<size, T, Of>
      <<<static_cast<unsigned>(parts), threads_per_block, 0, cuda_stream(queue)>>>(of, to, runs, parts);
  check_launch();
  sum_parts(to, 1, parts, finish, queue);
}

}  // namespace lockstep::ops::cuda
