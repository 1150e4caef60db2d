// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "ops/cuda/device/runs.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Number of threads that share the channels of a position.
constexpr int pool_team = 32;
using ChannelTeam = Team<pool_team>;

/// A channel's element and its index. A NaN is larger than any number.
struct LargestChannel {
  float value;
  std::int64_t channel;
  static __device__ LargestChannel of(const LargestChannel& a, const LargestChannel& b) {
    const bool a_is_nan = a.value != a.value;
    const bool b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (a_is_nan || a.value == b.value) return b.channel < a.channel ? b : a;
    return b.value > a.value ? b : a;
  }
};

/// The channels of all positions of the input, and the result, which has one channel.
template <typename E>
struct ChannelPooling {
  ChannelPool::Kind kind;
  TensorView x;
  TensorView y;

  [[nodiscard]] __device__ LargestChannel largest(const void* data, std::int64_t position,
                                                  const ChannelTeam& team) const {
    LargestChannel best{-std::numeric_limits<float>::infinity(), std::numeric_limits<std::int64_t>::max()};
    for (std::int64_t c = team.lane; c < x.channels; c += pool_team)
      best = LargestChannel::of(best, {load<E>(data, position * x.padded + c), c});
    return team.all(best, LargestChannel::of);
  }
  [[nodiscard]] __device__ float mean(const void* data, std::int64_t position, const ChannelTeam& team) const {
    double sum = 0;
    for (std::int64_t c = team.lane; c < x.channels; c += pool_team)
      sum += static_cast<double>(load<E>(data, position * x.padded + c));
    return static_cast<float>(team.sum(sum) / static_cast<double>(x.channels));
  }

  void forward(const Arguments& call) const {
    const void* data = call.inputs[0];
    void* out = call.output;
    for_each_run<pool_team>(
        x.positions(),
        [=, of = *this] __device__(std::int64_t position, bool exists, const ChannelTeam& team) {
          const float value = of.kind == ChannelPool::Kind::mean ? of.mean(data, position, team)
                                                                 : of.largest(data, position, team).value;
          if (!exists) return;
          for (std::int64_t c = team.lane; c < of.y.padded; c += pool_team)
            store<E>(out, position * of.y.padded + c, c == 0 ? value : 0.0F);
        },
        call.queue);
  }

  void backward(const Arguments& call) const {
    const void* data = call.inputs[0];
    const void* dy = call.output_gradient;
    void* dx = call.input_gradients[0];
    if (dx == nullptr) return;
    for_each_run<pool_team>(
        x.positions(),
        [=, of = *this] __device__(std::int64_t position, bool exists, const ChannelTeam& team) {
          const bool is_mean = of.kind == ChannelPool::Kind::mean;
          const std::int64_t channel = is_mean ? 0 : of.largest(data, position, team).channel;
          if (!exists) return;
          const float gradient = load<E>(dy, position * of.y.padded);
          const float share = gradient / static_cast<float>(of.x.channels);
          for (std::int64_t c = team.lane; c < of.x.padded; c += pool_team) {
            const float value = is_mean ? share : c == channel ? gradient : 0.0F;
            store<E>(dx, position * of.x.padded + c, c < of.x.channels ? value : 0.0F);
          }
        },
        call.queue);
  }
};

}  // namespace

Implementation make(const ChannelPool& op, Formats in, const Signature& signature) {
  const Format out = nhwc(signature.output, in[0].dtype);
  return with_elements(in[0].dtype, [&](auto e) -> Implementation {
    const ChannelPooling<decltype(e)> pooling{op.kind, view_of(in[0]), view_of(out)};
    return {.traits = {.inputs = {in[0]},
                       .output = out,
                       .backward_reads_inputs = op.kind == ChannelPool::Kind::max,
                       .backward_reads_output = false},
            .forward = [=](const Arguments& call) { pooling.forward(call); },
            .backward = [=](const Arguments& call) { pooling.backward(call); }};
  });
}

}  // namespace lockstep::ops::cuda
