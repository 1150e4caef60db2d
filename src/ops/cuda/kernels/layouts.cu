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
  const Divisor of_sample(target.sample_stride);
  for_each(
      target.elements(),
      [=] __device__(std::int64_t i) {
        const Division sample = divide(i, of_sample);
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
  const Divisor packs(target.padded / size);
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

/// The most channels that are packed at a time.
template <typename E>
constexpr int pack_size = 16 / sizeof(typename E::Stored);

/// Whether a thread packs `pack_size` channels, or else one.
bool is_wide(const Packing& p) { return p.packed_in % (16 / size_of(p.dtype)) == 0; }

/// The extents of a tensor of weights, prepared for kernels that find their places by division.
struct PackingView {
  std::int64_t out;
  std::int64_t in;
  Divisor window;
  Divisor out_of_group;  // 0: there is one block of channels
  std::int64_t packed_in;

  explicit PackingView(const Packing& p)
      : out(p.out), in(p.in), window(p.window), out_of_group(p.dense ? p.out / p.groups : 0), packed_in(p.packed_in) {}
  /// The first packed channel of the group of an output channel.
  [[nodiscard]] __device__ std::int64_t first_of(std::int64_t o) const {
    return out_of_group == 0 ? 0 : divide(o, out_of_group).quotient * in;
  }
};

/// Tensors of one launch, whose packs are numbered one after the other; its arguments have at most 4 KiB.
struct PackedTensors {
  struct Tensor {
    PackingView view{Packing{}};
    Divisor packs;  // of a window's element
    const float* from = nullptr;
    void* to = nullptr;
    std::int64_t first = 0;
  };
  static constexpr int most = 36;
  Tensor of[most];
  int count = 0;
  std::int64_t packs = 0;

  void add(const PackingTask& task, int size) {
    const Packing& p = task.packing;
    of[count++] = {PackingView(p), Divisor(p.packed_in / size), static_cast<const float*>(task.from), task.to, packs};
    packs += p.packed_out * p.window * p.packed_in / size;
  }
};
static_assert(sizeof(PackedTensors) <= 3584);

/// A thread makes a pack of channels.
template <typename E, int size>
void pack(const PackedTensors& tensors, Queue queue) {
  for_each(
      tensors.packs,
      [=] __device__(std::int64_t i) {
        int behind = tensors.count;
        int t = 0;
        while (t + 1 < behind) {
          const int middle = (t + behind) / 2;
          (tensors.of[middle].first <= i ? t : behind) = middle;
        }
        const PackedTensors::Tensor& tensor = tensors.of[t];
        const PackingView& p = tensor.view;
        const Division at = divide(i - tensor.first, tensor.packs);
        const Division row = divide(at.quotient, p.window);
        const std::int64_t out = row.quotient;
        const std::int64_t first = at.remainder * size - p.first_of(out);
        Pack<size> values{};
        for (int k = 0; k < size; ++k) {
          const std::int64_t in = first + k;
          if (out < p.out && in >= 0 && in < p.in)
            values.at[k] = tensor.from[(out * p.in + in) * p.window + row.remainder];
        }
        store_pack<E, size>(tensor.to, i - tensor.first, values);
      },
      queue);
}

template <typename E>
void unpack(const Packing& packing, const void* from, float* to, Queue queue) {
  const PackingView p(packing);
  const Divisor ins(packing.in);
  for_each(
      packing.out * packing.in * packing.window,
      [=] __device__(std::int64_t i) {
        const Division at = divide(i, p.window);
        const Division row = divide(at.quotient, ins);
        const std::int64_t out = row.quotient;
        to[i] = load<E>(from, (out * p.window + at.remainder) * p.packed_in + p.first_of(out) + row.remainder);
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
  const auto pack_alike = [&](DType dtype, bool wide) {
    with_elements(dtype, [&](auto e) {
      constexpr int size = pack_size<decltype(e)>;
      PackedTensors tensors;
      const auto flush = [&] {
        wide ? pack<decltype(e), size>(tensors, queue) : pack<decltype(e), 1>(tensors, queue);
        tensors = {};
      };
      for (const PackingTask& task : tasks) {
        if (task.packing.dtype != dtype || is_wide(task.packing) != wide) continue;
        tensors.add(task, wide ? size : 1);
        if (tensors.count == PackedTensors::most) flush();
      }
      flush();
    });
  };
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    for (const bool wide : {false, true}) pack_alike(dtype, wide);
}

void unpack_gradient(const Packing& packing, const void* from, DType dtype, void* to, Queue queue) {
  with_elements(dtype, [&](auto e) { unpack<decltype(e)>(packing, from, static_cast<float*>(to), queue); });
}

}  // namespace lockstep::ops::cuda
