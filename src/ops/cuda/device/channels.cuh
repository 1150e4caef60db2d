// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"

/// Kernels over NHWC tensors whose work depends on the channel. A thread takes a pack of neighboring channels, which is
/// one access of 16 bytes where the number of channels allows it, and keeps what belongs to these channels in registers
/// while it goes from position to position.
namespace lockstep::ops::cuda {

template <typename E, int size>
struct alignas(size * sizeof(typename E::Stored)) StoredPack {
  typename E::Stored at[size];
};

template <int size>
struct Pack {
  float at[size];
};

/// A pack as it lies in memory. Kernels load the packs of several positions before they compute with the first one,
/// because a GPU reaches the bandwidth of its memory only with many loads in flight.
template <typename E, int size>
__device__ StoredPack<E, size> load_stored(const void* data, std::int64_t i) {
  return static_cast<const StoredPack<E, size>*>(data)[i];
}
template <typename E, int size>
__device__ Pack<size> widened(const StoredPack<E, size>& stored) {
  Pack<size> pack;
  for (int k = 0; k < size; ++k) pack.at[k] = E::widen(stored.at[k]);
  return pack;
}

/// Loads pack `i` of an array.
template <typename E, int size>
__device__ Pack<size> load_pack(const void* data, std::int64_t i) {
  return widened(load_stored<E, size>(data, i));
}
template <typename E, int size>
__device__ StoredPack<E, size> narrowed(const Pack<size>& pack) {
  StoredPack<E, size> stored;
  if constexpr (size % 2 == 0 && sizeof(typename E::Stored) == 2) {
    for (int k = 0; k < size; k += 2) {
      const ushort2 pair = E::narrow_pair(pack.at[k], pack.at[k + 1]);
      stored.at[k] = pair.x;
      stored.at[k + 1] = pair.y;
    }
  } else {
    for (int k = 0; k < size; ++k) stored.at[k] = E::narrow(pack.at[k]);
  }
  return stored;
}
template <typename E, int size>
__device__ void store_pack(void* data, std::int64_t i, const Pack<size>& pack) {
  static_cast<StoredPack<E, size>*>(data)[i] = narrowed<E, size>(pack);
}

/// Loads the numbers of a pack's channels from arrays that have one for each channel. In the padding they are zeros.
template <int size, int count>
__device__ void load_channels(const float* const (&arrays)[count], std::int64_t pack, std::int64_t channels,
                              Pack<size> (&numbers)[count]) {
  const std::int64_t first = pack * size;
  if constexpr (size % 4 == 0) {
    std::uintptr_t addresses = 0;
    for (const float* array : arrays) addresses |= reinterpret_cast<std::uintptr_t>(array);
    if (channels % 4 == 0 && addresses % sizeof(float4) == 0) {
      for (int which = 0; which < count; ++which)
        for (int k = 0; k < size; k += 4) {
          Pack<4> four{};
          if (first + k < channels) four = load_pack<Float32, 4>(arrays[which], (first + k) / 4);
          for (int i = 0; i < 4; ++i) numbers[which].at[k + i] = four.at[i];
        }
      return;
    }
  }
  for (int which = 0; which < count; ++which)
    for (int k = 0; k < size; ++k) numbers[which].at[k] = first + k < channels ? arrays[which][first + k] : 0.0F;
}

/// Calls `f` with the type of the elements and the size of packs as an integral constant.
template <typename F>
auto with_packs(const Format& format, const F& f) {
  if (format.dtype == DType::bfloat16) return f(BFloat16{}, std::integral_constant<int, 8>{});
  if (format.dtype == DType::float16) return f(Float16{}, std::integral_constant<int, 8>{});
  if (format.shape.channels % 4 == 0) return f(Float32{}, std::integral_constant<int, 4>{});
  return f(Float32{}, std::integral_constant<int, 1>{});
}

/// The distribution of positions and packs over blocks, which depends on the extents only.
struct PackTiles {
  std::int64_t rows = 0;   ///< number of positions
  std::int64_t packs = 0;  ///< number of packs of a position
  std::int64_t parts = 1;  ///< number of blocks that share the positions of a pack
  int width = 1;           ///< number of packs of a block, a power of two
  int depth = 1;           ///< number of positions of a block that are read at once, a power of two

  /// A thread gets at most 256 positions, so that its sums in float32 are short, and at least 16, so that loading its
  /// constants and adding up the sums of a block take little of its time; fewer, down to 4, where a large GPU would
  /// have less than two blocks for each of its multiprocessors.
  PackTiles(const TensorView& view, int pack_size) : rows(view.positions()), packs(view.padded / pack_size) {
    while (width < 32 && width < packs) width *= 2;
    constexpr std::int64_t few_blocks = 264;
    constexpr std::int64_t enough_blocks = 1024;
    const std::int64_t most_depth = threads_per_block / width;
    const std::int64_t least = std::min(few_blocks / blocks_of_position(), rows / (4 * most_depth));
    const std::int64_t most = std::max(enough_blocks / blocks_of_position(), rows / (256 * most_depth));
    parts = std::max<std::int64_t>(std::clamp(rows / (16 * most_depth), least, most), 1);
    // In a small tensor, more threads would have no position.
    while (depth < most_depth && depth * parts < rows) depth *= 2;
  }
  [[nodiscard]] int threads() const { return width * depth; }
  [[nodiscard]] std::int64_t blocks_of_position() const { return (packs + width - 1) / width; }
  [[nodiscard]] dim3 grid() const {
    return {static_cast<unsigned>(blocks_of_position()), static_cast<unsigned>(parts)};
  }
  /// The first position of a part.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t begin(std::int64_t part) const { return rows * part / parts; }
};

/// The work of a thread of a block.
struct PackThread {
  int y;  ///< index of its first position in the part
  int depth;
  std::int64_t pack;
  std::int64_t begin;  ///< of the part
  std::int64_t end;

  __device__ PackThread(const PackTiles& tiles, std::int64_t part)
      : y(static_cast<int>(threadIdx.x) / tiles.width),
        depth(tiles.depth),
        pack(static_cast<std::int64_t>(blockIdx.x) * tiles.width + threadIdx.x % static_cast<unsigned>(tiles.width)),
        begin(tiles.begin(part)),
        end(pack < tiles.packs ? tiles.begin(part + 1) : begin) {}
};

/// Calls body(index, loaded pack, constants) for `count` packs, the first of which is `first`, and which lie `step`
/// apart.
template <typename Body, typename Constants>
__device__ void for_packs(const Body& body, const Constants& constants, std::int64_t first, std::int64_t step,
                          std::int64_t count) {
  constexpr int batch = Body::batch;
  std::int64_t i = first;
  for (; count >= batch; count -= batch, i += batch * step) {
    typename Body::Loaded loaded[batch];
    for (int k = 0; k < batch; ++k) loaded[k] = body.load(i + k * step);
    for (int k = 0; k < batch; ++k) body(i + k * step, loaded[k], constants);
  }
  for (; count > 0; --count, i += step) body(i, body.load(i), constants);
}

/// Goes from the end of the tensor to its beginning: the end, which the kernel before has read or written last, is
/// still in the cache, and the beginning is there for the kernel behind. All blocks run at the same time, and go
/// together.
template <typename Body>
__global__ void __launch_bounds__(threads_per_block, Body::blocks_of_multiprocessor)
    each_pack(Body body, PackTiles tiles) {
  const PackThread thread(tiles, 0);
  if (thread.pack >= tiles.packs) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * thread.depth;
  const std::int64_t last = tiles.rows - 1 - static_cast<std::int64_t>(blockIdx.y) * thread.depth - thread.y;
  if (last < 0) return;
  const auto constants = body.constants(thread.pack);
  for_packs(body, constants, last * tiles.packs + thread.pack, -step * tiles.packs, last / step + 1);
}

/// The number of blocks of a kernel that run at the same time. CUDA is asked once for each kernel, size and GPU.
inline std::int64_t resident_blocks(const void* kernel, int threads) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int>, std::int64_t> known;
  int gpu = 0;
  LOCKSTEP_CUDA_CHECK(cudaGetDevice(&gpu));
  const std::scoped_lock lock(mutex);
  const std::tuple key(kernel, threads, gpu);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  int multiprocessors = 0;
  int of_each = 0;
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu));
  LOCKSTEP_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, kernel, threads, 0));
  return known[key] = static_cast<std::int64_t>(multiprocessors) * of_each;
}

/// Submits body(i, body.load(i), body.constants(pack)) for each pack `i` of a tensor, each once, in any order.
/// @tparam Body  has also `batch`, the number of positions that a thread loads before it computes, and
///               `blocks_of_multiprocessor`, the number of blocks for which its registers must suffice
template <typename Body>
void for_each_pack(const PackTiles& tiles, const Body& body, Queue queue) {
  if (tiles.rows <= 0) return;
  // With fewer positions than a batch, a thread would load its constants for little.
  const std::int64_t of_block = static_cast<std::int64_t>(Body::batch) * tiles.depth;
  const std::int64_t enough = (tiles.rows + of_block - 1) / of_block;
  const auto* const kernel = reinterpret_cast<const void*>(&each_pack<Body>);
  const std::int64_t fitting = resident_blocks(kernel, tiles.threads()) / tiles.blocks_of_position();
  dim3 grid = tiles.grid();
  grid.y = static_cast<unsigned>(std::clamp<std::int64_t>(fitting, 1, enough));
  static_cast<void>(cudaGetLastError());
  each_pack<Body><<<grid, tiles.threads(), 0, cuda_stream(queue)>>>(body, tiles);
  check_launch();
}

/// Adds a thread's packs to its sums, in the order of their positions.
template <int size, typename Of>
__device__ void add_packs(const Of& of, const typename Of::Constants& constants, const PackTiles& tiles,
                          const PackThread& thread, float (&sums)[Of::sums_of_channel][size]) {
  constexpr int batch = Of::batch;
  const std::int64_t step = thread.depth * tiles.packs;
  std::int64_t row = thread.begin + thread.y;
  std::int64_t i = row * tiles.packs + thread.pack;
  for (; row + (batch - 1) * thread.depth < thread.end; row += batch * thread.depth, i += batch * step) {
    typename Of::Loaded loaded[batch];
    for (int k = 0; k < batch; ++k) loaded[k] = of.load(i + k * step);
    for (int k = 0; k < batch; ++k) of.add(i + k * step, loaded[k], constants, sums);
  }
  for (; row < thread.end; row += thread.depth, i += step) of.add(i, of.load(i), constants, sums);
}

/// Makes the sums of each channel of each part.
template <int size, typename Of>
__global__ void __launch_bounds__(threads_per_block, Of::blocks_of_multiprocessor)
    sum_pack_parts(Of of, PackTiles tiles, double* partials) {
  __shared__ double shared[size * threads_per_block];
  const PackThread thread(tiles, blockIdx.y);
  const bool works = thread.begin < thread.end;
  typename Of::Constants constants{};
  float sums[Of::sums_of_channel][size] = {};
  if (works) {
    constants = of.constants(thread.pack, thread.begin);
    bool reads = true;
    if constexpr (requires { of.reads(constants); }) reads = of.reads(constants);
    if (reads) add_packs(of, constants, tiles, thread, sums);
  }
  double totals[Of::sums_of_channel][size];
  for (int which = 0; which < Of::sums_of_channel; ++which) {
    double* const mine = shared + threadIdx.x;
    for (int k = 0; k < size; ++k) mine[k * threads_per_block] = static_cast<double>(sums[which][k]);
    __syncthreads();
    for (int half = thread.depth / 2; half > 0; half /= 2) {
      if (thread.y < half)
        for (int k = 0; k < size; ++k) mine[k * threads_per_block] += mine[k * threads_per_block + half * tiles.width];
      __syncthreads();
    }
    for (int k = 0; k < size; ++k) totals[which][k] = mine[k * threads_per_block];
  }
  if (thread.y != 0 || thread.pack >= tiles.packs) return;
  double* const to = partials + Of::sums_of_channel * size * (blockIdx.y * tiles.packs + thread.pack);
  for (int k = 0; k < size; ++k) {
    double of_channel[Of::sums_of_channel];
    for (int which = 0; which < Of::sums_of_channel; ++which) of_channel[which] = totals[which][k];
    if (works) of.finish(k, constants, thread.end - thread.begin, of_channel);
    for (int which = 0; which < Of::sums_of_channel; ++which) to[Of::sums_of_channel * k + which] = of_channel[which];
  }
}

/// The bytes of the sums that `sum_packs` writes. @param sums  of a channel
inline Bytes partial_sums(const PackTiles& tiles, int pack_size, std::int64_t sums = 2) {
  return {sums * pack_size * tiles.parts * tiles.packs * static_cast<std::int64_t>(sizeof(double))};
}

/// Submits the sums of each channel of each part: parts × channels in memory × `Of::sums_of_channel`.
/// @tparam Of  has `sums_of_channel`, the number of sums of a channel;
///             `constants(pack, first position of the part)`, `load(pack index)`,
///             `add(pack index, loaded pack, constants, sums)`, and `finish(k, constants, positions, sums)`, which may
///             change the sums of a part; `batch` and `blocks_of_multiprocessor` as in `for_each_pack`; and, if not all
///             packs have to be read, `reads(constants)`
template <int size, typename Of>
void sum_packs(const PackTiles& tiles, const Of& of, void* partials, Queue queue) {
  static_cast<void>(cudaGetLastError());
  sum_pack_parts<size, Of>
      <<<tiles.grid(), tiles.threads(), 0, cuda_stream(queue)>>>(of, tiles, static_cast<double*>(partials));
  check_launch();
}

struct TwoSums {
  double first;
  double second;
  friend __device__ TwoSums operator+(const TwoSums& a, const TwoSums& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

/// The first of the sums of `sum_packs` and another one as a fold of `fold_channels`, which has to be given its
/// `finish`.
struct PartSums {
  using Total = TwoSums;
  std::int64_t stride;  ///< number of channels of a part in memory
  const double* partials;
  int sums = 2;   ///< of a channel
  int other = 1;  ///< which of them

  __device__ Total at(std::int64_t part, std::int64_t channel) const {
    const double* of = partials + sums * (part * stride + channel);
    return {of[0], of[other]};
  }
  static __device__ Total join(const Total& a, const Total& b) { return a + b; }
};

inline constexpr unsigned most_threads_of_fold = 128;

/// @pre  a block has a power of two of threads
template <typename Fold>
__global__ void __launch_bounds__(most_threads_of_fold) fold_each_channel(Fold fold, std::int64_t parts) {
  __shared__ typename Fold::Total values[most_threads_of_fold];
  const std::int64_t channel = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  // All loads of a thread are under way before it joins the first one.
  constexpr int batch = 8;
  typename Fold::Total value{};
  for (std::int64_t first = thread; first < parts; first += batch * threads) {
    typename Fold::Total loaded[batch] = {};
    for (int k = 0; k < batch; ++k)
      if (first + k * threads < parts) loaded[k] = fold.at(first + k * threads, channel);
    for (int k = 0; k < batch; ++k)
      if (first + k * threads < parts) value = Fold::join(value, loaded[k]);
  }
  values[thread] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) values[thread] = Fold::join(values[thread], values[thread + half]);
    __syncthreads();
  }
  if (thread == 0) fold.finish(channel, values[0]);
}

/// Submits fold.finish(channel, join of fold.at(part, channel) over all parts) for each channel.
/// @tparam Fold  has also the aggregate `Total`, of which Total{} is the neutral element of its `join`
template <typename Fold>
void fold_channels(std::int64_t parts, std::int64_t channels, const Fold& fold, Queue queue) {
  if (channels <= 0) return;
  static_cast<void>(cudaGetLastError());
  // Small tensors have few parts: more threads would only wait at the barriers.
  const unsigned threads =
      std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(parts, 1, most_threads_of_fold)));
  fold_each_channel<Fold><<<static_cast<unsigned>(channels), threads, 0, cuda_stream(queue)>>>(fold, parts);
  check_launch();
}

}  // namespace lockstep::ops::cuda
