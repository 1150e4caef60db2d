// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

template <typename E>
struct ReadElements {
  __device__ float operator()(const void* data, std::int64_t i, std::int64_t /*channel*/) const {
    return load<E>(data, i);
  }
};

struct ReadBytes {
  const float* numbers;  // channels × 256

  __device__ float operator()(const void* data, std::int64_t i, std::int64_t channel) const {
    return numbers[channel * 256 + static_cast<const std::uint8_t*>(data)[i]];
  }
};

/// Neighboring threads write neighboring elements, or packs of channels where a position has all of them.
template <typename To, typename Read>
void convert_to_plain(const TensorView& source, const TensorView& target, const Read& read, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      target.elements(),
      [=] __device__(std::int64_t i) {
        const Division sample = divide(i, target.sample_stride);
        const Position at = target.plain_position(sample.quotient, sample.remainder);
        const bool exists = at.channel < source.channels && at.row < source.height && at.column < source.width;
        store<To>(out, i, exists ? read(in, source.offset(at), at.channel) : 0.0F);
      },
      call.queue);
}

template <typename To, int size, typename Read>
void convert_to_nhwc(const TensorView& source, const TensorView& target, const Read& read, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  const std::int64_t packs = target.padded / size;
  for_each(
      target.positions() * packs,
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, packs);
        Position at = target.first_channel(pixel.quotient);
        const bool exists = at.row < source.height && at.column < source.width;
        Pack<size> values{};
        for (int k = 0; k < size; ++k) {
          at.channel = pixel.remainder * size + k;
          if (exists && at.channel < source.channels) values.at[k] = read(in, source.offset(at), at.channel);
        }
        store_pack<To, size>(out, i, values);
      },
      call.queue);
}

template <typename Read>
Submit convert(const Format& from, const Format& to, const Read& read) {
  const TensorView source = view_of(from);
  const TensorView target = view_of(to);
  if (to.native == nullptr) {
    return with_elements(to.dtype, [&](auto t) -> Submit {
      return [=](const Arguments& call) { convert_to_plain<decltype(t)>(source, target, read(), call); };
    });
  }
  return with_packs(to, [&](auto t, auto size) -> Submit {
    return [=](const Arguments& call) { convert_to_nhwc<decltype(t), size>(source, target, read(), call); };
  });
}

/// Tensors of one launch; its arguments have at most 4 KiB.
constexpr int tensors_of_launch = 32;
struct Tensors {
  PackingTask of[tensors_of_launch];
  std::int64_t ends[tensors_of_launch];  ///< number of packed elements up to the end of each tensor
  int count = 0;
};
static_assert(sizeof(Tensors) <= 3584);

/// Returns the index in the plain tensor of an element of the copy; −1: the element is zero.
__device__ std::int64_t source_of(const Packing& p, std::int64_t i) {
  const std::int64_t in = i % p.packed_in;
  const std::int64_t window = i / p.packed_in % p.window;
  const std::int64_t out = i / (p.packed_in * p.window);
  if (out >= p.out) return -1;
  const std::int64_t first = p.dense ? out / (p.out / p.groups) * p.in : 0;  // the first channel of its group
  if (in < first || in >= first + p.in) return -1;
  return (out * p.in + in - first) * p.window + window;
}

__device__ void store_as(DType dtype, void* to, std::int64_t i, float value) {
  if (dtype == DType::bfloat16) return store<BFloat16>(to, i, value);
  if (dtype == DType::float16) return store<Float16>(to, i, value);
  store<Float32>(to, i, value);
}

void pack(const Tensors& tensors, Queue queue) {
  for_each(
      tensors.ends[tensors.count - 1],
      [=] __device__(std::int64_t i) {
        int t = 0;
        while (i >= tensors.ends[t]) ++t;
        const PackingTask& task = tensors.of[t];
        const std::int64_t place = i - (t == 0 ? 0 : tensors.ends[t - 1]);
        const std::int64_t source = source_of(task.packing, place);
        store_as(task.packing.dtype, task.to, place, source < 0 ? 0.0F : static_cast<const float*>(task.from)[source]);
      },
      queue);
}

template <typename E>
void unpack(const Packing& p, const void* from, float* to, Queue queue) {
  for_each(
      p.out * p.in * p.window,
      [=] __device__(std::int64_t i) {
        const std::int64_t window = i % p.window;
        const std::int64_t in = i / p.window % p.in;
        const std::int64_t out = i / (p.window * p.in);
        const std::int64_t first = p.dense ? out / (p.out / p.groups) * p.in : 0;
        to[i] = load<E>(from, (out * p.window + window) * p.packed_in + first + in);
      },
      queue);
}

}  // namespace

Implementation make_reorder(const Format& from, const Format& to) {
  return with_elements(from.dtype, [&](auto f) {
    return Implementation{.traits = {.inputs = {from}, .output = to},
                          .forward = convert(from, to, [] { return ReadElements<decltype(f)>{}; }),
                          .backward = {}};
  });
}

Implementation make_byte_conversion(std::shared_ptr<const Allocation> table, const Format& to) {
  const Format from = Format::plain(to.shape, DType::uint8);
  return {.traits = {.inputs = {from}, .output = to},
          .forward = convert(from, to, [table] { return ReadBytes{static_cast<const float*>(table->data())}; }),
          .backward = {}};
}

void pack_weights(std::span<const PackingTask> tasks, Queue queue) {
  Tensors tensors{};
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    elements += tasks[i].packing.packed_out * tasks[i].packing.window * tasks[i].packing.packed_in;
    tensors.of[tensors.count] = tasks[i];
    tensors.ends[tensors.count++] = elements;
    if (tensors.count < tensors_of_launch && i + 1 < tasks.size()) continue;
    pack(tensors, queue);
    tensors.count = 0;
    elements = 0;
  }
}

void unpack_gradient(const Packing& packing, const void* from, DType dtype, void* to, Queue queue) {
  with_elements(dtype, [&](auto e) { unpack<decltype(e)>(packing, from, static_cast<float*>(to), queue); });
}

}  // namespace lockstep::ops::cuda
