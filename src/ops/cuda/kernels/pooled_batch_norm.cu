// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "ops/cuda/device/batch_norm_passes.cuh"
#include "ops/cuda/device/pooled_batch_norm.cuh"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// A batch norm with a max pool behind it: the normalized values are never stored, nor is their gradient. Saved are
/// also the places of the largest values. Everything is as if there were two operators, to the last bit.
template <typename E, int size>
struct PooledBatchNorm {
  BatchNormPasses<E, size> norm;
  PackGrid x;
  PackGrid y;
  PackTiles tiles;  ///< of the result
  PooledWindows windows;

  using Place = StoredPack<WindowPlace, size>;
  using Of = PooledGradient<E, size>;

  PooledBatchNorm(const BatchNorm& op, const Format& in, const Format& result)
      : norm(op, in, 0),
        x(view_of(in), size),
        y(view_of(result), size),
        tiles(view_of(result), size),
        windows(*op.pool, in.shape, result.shape) {
    if (std::max(x.count, y.count) <= Divisor::largest) return;
    throw Error(ErrorCode::unsupported, std::to_string(in.shape.batch) +
                                            " samples of a batch norm with a max pool on a GPU, "
                                            "which are too large together; use fewer, or leave the pass 'fuse' out");
  }

  [[nodiscard]] Bytes saved() const {
    return {norm.saved().value + y.count * static_cast<std::int64_t>(sizeof(Place))};
  }
  [[nodiscard]] Place* places(const Arguments& call) const {
    return reinterpret_cast<Place*>(static_cast<std::byte*>(call.saved) + norm.saved().value);
  }

  void forward(const Arguments& call) const {
    norm.find_statistics(call);
    pool(call, places(call), norm.lines(call));
  }
  void infer(const Arguments& call) const { pool(call, nullptr, norm.running_lines(call)); }

  void pool(const Arguments& call, Place* kept, const LineSource& lines) const {
    with_activation(norm.op.activation, [&](auto activation) {
      const PoolNormalized<E, size, activation> body{call.inputs[0], call.output, kept, x, y, windows, lines};
      for_each_pack(tiles, body, call.queue);
    });
  }

  [[nodiscard]] Of gradient(const Arguments& call) const {
    return {call.output_gradient, places(call), x, y, windows, norm.op.activation};
  }
  void sum_gradients(const Arguments& call) const {
    const GradientSums<E, size, Of> sums{call.inputs[0], gradient(call), nullptr, norm.lines(call)};
    sum_packs<size>(norm.tiles, sums, call.workspace, call.queue);
  }
  void measure_backward(const Arguments& call) const {
    sum_gradients(call);
    norm.write_gradients(call);
  }
  void backward(const Arguments& call) const {
    if (!norm.op.synchronized) sum_gradients(call);
    norm.use_gradients(call);
    if (call.input_gradients[0] == nullptr) return;
    const InputGradient<E, size, Of> body{call.inputs[0], gradient(call),   call.input_gradients[0],
                                          nullptr,        norm.lines(call), norm.means(call)};
    for_each_pack(norm.tiles, body, call.queue);
  }
};

template <typename E, int size>
Implementation pooled_batch_norm(const BatchNorm& op, const Format& x, const Format& y) {
  const PooledBatchNorm<E, size> passes(op, x, y);
  return {.traits = {.inputs = {x},
                     .output = y,
                     .saved = passes.saved(),
                     .workspace = passes.norm.workspace(),
                     .backward_reads_output = false,
                     .forward_part = passes.norm.exchanged(),
                     .backward_part = passes.norm.exchanged()},
          .forward = [=](const Arguments& call) { passes.forward(call); },
          .backward = [=](const Arguments& call) { passes.backward(call); },
          .infer = [=](const Arguments& call) { passes.infer(call); },
          .measure = [=](const Arguments& call) { passes.norm.measure(call); },
          .measure_backward = [=](const Arguments& call) { passes.measure_backward(call); }};
}

}  // namespace

Implementation make_pooled_batch_norm(const BatchNorm& op, Formats in, const Signature& signature) {
  return with_packs(in[0], [&](auto e, auto size) {
    return pooled_batch_norm<decltype(e), size>(op, in[0], nhwc(signature.output, in[0].dtype));
  });
}

}  // namespace lockstep::ops::cuda
