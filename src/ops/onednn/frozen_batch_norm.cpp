// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "ops/onednn/channel_layout.hpp"
#include "ops/onednn/operators.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Uses batch norm's loops on the format of the input. T is the element type in memory. It saves each channel's scale.
template <typename T>
class FrozenBatchNormKernel final : public Kernel {
 public:
  FrozenBatchNormKernel(const Format& in, const FrozenBatchNorm& norm)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {in.shape.channels * size_of(DType::float64)},
                .backward_reads_inputs = false,
                .backward_reads_output = false}),
        epsilon_(norm.epsilon),
        channels_(in.shape.channels),
        layout_(channel_layout(in)),
        scales_(static_cast<std::size_t>(layout_.channels())),
        shifts_(scales_.size()),
        zeros_(scales_.size()) {}

  void forward(const Arguments& call) override {
    infer(call);
    for (std::int64_t c = 0; c < channels_; ++c)
      static_cast<double*>(call.saved)[c] = scales_[static_cast<std::size_t>(c)];
  }

  void infer(const Arguments& call) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      const auto state = [&](std::size_t k) {
        return static_cast<double>(static_cast<const float*>(call.state[k])[c]);
      };
      const auto i = static_cast<std::size_t>(c);
      scales_[i] = state(0) / std::sqrt(state(3) + epsilon_);
      shifts_[i] = state(1) - state(2) * scales_[i];
    }
    apply(shifts_, call.inputs[0], call.output);
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    for (std::int64_t c = 0; c < channels_; ++c)
      scales_[static_cast<std::size_t>(c)] = static_cast<const double*>(call.saved)[c];
    apply(zeros_, call.output_gradient, call.input_gradients[0]);
  }

 private:
  void apply(const std::vector<double>& shifts, const void* from, void* to) const {
    kernels::normalize(layout_, whole(layout_), {scales_.data(), shifts.data(), kernels::Clip::none},
                       static_cast<const T*>(from), nullptr, static_cast<T*>(to));
  }

  double epsilon_;
  std::int64_t channels_;
  kernels::ChannelLayout layout_;
  std::vector<double> scales_;  ///< zero for padding channels, like the shifts, which keeps the padding zero
  std::vector<double> shifts_;
  std::vector<double> zeros_;
};

}  // namespace

std::unique_ptr<Kernel> make(const FrozenBatchNorm& norm, const ContextPtr& /*context*/, std::span<const Format> in) {
  const Format known = channel_tag(in[0]) ? in[0] : Format::plain(in[0].shape, in[0].dtype);
  if (known.dtype == DType::bfloat16) return std::make_unique<FrozenBatchNormKernel<bfloat16>>(known, norm);
  return std::make_unique<FrozenBatchNormKernel<float>>(known, norm);
}

}  // namespace lockstep::ops::onednn
