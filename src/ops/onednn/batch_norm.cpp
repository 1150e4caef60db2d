// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <cstring>

#include "ops/onednn/batch_norm_channels.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/format.hpp"
namespace lockstep::ops::onednn {
namespace {

/// Returns the formats of the inputs; both have the format of the first.
std::vector<Format> inputs_of(const BatchNorm& shape, Formats in) {
  if (!shape.residual) return {in[0]};
  return {in[0], to_desc(in[0]) == to_desc(in[1]) ? in[1] : in[0]};
}

int team_size() {
  int size = 1;
  on_team([&size](int member, int members) {
    if (member == 0) size = members;
  });
  return size;
}

/// Works on one chunk of channel groups after the other, so that a chunk's second pass finds its data in the caches.
/// Each member of the team has its own images. T is the element type in memory.
template <typename T>
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(Formats in, const BatchNorm& shape)
      : shape_(shape),
        out_(in[0]),
        layout_(channel_layout(in[0])),
        channels_(shape, layout_, in[0].shape.channels, team_size()) {
    const bool is_clipped = channels_.is_clipped();
    const std::int64_t exchanged = shape.synchronized ? 3 * out_.shape.channels : 0;
    set({.inputs = inputs_of(shape, in),
         .output = out_,
         .saved = channels_.saved_bytes(),
         .backward_reads_first_input = true,
         .backward_reads_output = shape.residual && is_clipped,
         .recomputable = !shape.residual,
         .takes_two_gradients = shape.residual || is_clipped,
         .in_place_gradient = shape.residual ? 1 : 0,
         .forward_part = exchanged,
         .backward_part = exchanged});
  }

  void measure(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) { sum_values(call, groups); });
    channels_.set_part(call);
  }

  void forward(const Arguments& call) override {
    channels_.clear_saved(call);
    for_each_chunk([&](const Groups& groups) {
      if (!shape_.synchronized) sum_values(call, groups);
      channels_.set_batch_line(call, groups);
      normalize(call, channels_.batch_line(call), groups);
    });
  }

  void recompute(const Arguments& call) override { normalize(call, channels_.batch_line(call), all()); }

  void infer(const Arguments& call) override {
    channels_.set_running_line(call);
    normalize(call, channels_.running_line(), all());
  }

  void measure_backward(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) { sum_gradients(call, groups); });
    channels_.set_backward_part(call);
  }

  void backward(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) {
      shape_.synchronized ? channels_.set_thresholds(call, groups) : sum_gradients(call, groups);
      channels_.backward(call, groups);
      if (call.input_gradients[0] != nullptr) backward_input(call, groups);
    });
    if (!shape_.residual) return;
    void* residual = call.input_gradients[1];
    if (residual != nullptr && residual != call.output_gradient)
      std::memcpy(residual, call.output_gradient, static_cast<std::size_t>(out_.bytes.value));
  }

 private:
  [[nodiscard]] Groups all() const { return {0, layout_.groups}; }

  /// Calls `body` with chunks of groups that are as small as possible, but still read in long runs.
  template <typename Body>
  void for_each_chunk(const Body& body) const {
    constexpr std::int64_t long_run = 1024;
    const std::int64_t at_once = std::max<std::int64_t>(1, long_run / (layout_.positions * layout_.lanes));
    for (std::int64_t begin = 0; begin < layout_.groups; begin += at_once)
      body(Groups{begin, std::min(begin + at_once, layout_.groups)});
  }

  /// Calls `body(part, member)` on each member of the team.
  template <typename Body>
  void for_each_part(const Groups& groups, const Body& body) const {
    const auto of_member = [&](int member, int members) {
      body(kernels::TensorPart{layout_.images * member / members, layout_.images * (member + 1) / members, groups.begin,
                               groups.end},
           member);
    };
    on_team([&of_member](int member, int members) { of_member(member, members); });  // small: nothing is allocated
  }

  void sum_values(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const T*>(call.inputs[0]);
    for_each_part(groups, [&](const kernels::TensorPart& part, int member) {
      kernels::sum_channels(layout_, part, x, channels_.sums_of(member), channels_.products_of(member));
    });
    channels_.add_up(groups);
  }

  void normalize(const Arguments& call, const kernels::ForwardCoefficients& line, const Groups& groups) const {
    const auto* x = static_cast<const T*>(call.inputs[0]);
    const auto* residual = shape_.residual ? static_cast<const T*>(call.inputs[1]) : nullptr;
    for_each_part(groups, [&](const kernels::TensorPart& part, int /*member*/) {
      kernels::normalize(layout_, part, line, x, residual, static_cast<T*>(call.output));
    });
  }

  /// Sums the gradients before the activation. That gradient overwrites the output's gradient if the next pass would
  /// otherwise have to read more tensors to compute it again.
  void sum_gradients(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const T*>(call.inputs[0]);
    channels_.set_thresholds(call, groups);
    const auto* second = static_cast<const T*>(call.second_output_gradient);
    auto* dy = static_cast<T*>(call.output_gradient);
    for_each_part(groups, [&](const kernels::TensorPart& part, int member) {
      kernels::sum_gradients(layout_, part, channels_.mean(call), x, {dy, second, dy, channels_.template mask<T>(call)},
                             channels_.sums_of(member), channels_.products_of(member));
    });
    channels_.add_up(groups);
  }

  void backward_input(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const T*>(call.inputs[0]);
    const auto* dy = static_cast<const T*>(call.output_gradient);
    auto* dx = static_cast<T*>(call.input_gradients[0]);
    const bool done = shape_.residual || call.second_output_gradient != nullptr;
    const kernels::Mask<T> left = done ? kernels::Mask<T>{} : channels_.template mask<T>(call);
    for_each_part(groups, [&](const kernels::TensorPart& part, int /*member*/) {
      kernels::backward_input(layout_, part, channels_.backward_coefficients(call), left, x, dy, dx);
    });
  }

  BatchNorm shape_;
  Format out_;
  kernels::ChannelLayout layout_;
  BatchNormChannels channels_;
};

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

KernelPtr make(const BatchNorm& shape, const ContextPtr& /*context*/, Formats in) {
  if (in[0].dtype == DType::bfloat16) return std::make_unique<BatchNormKernel<bfloat16>>(in, shape);
  return std::make_unique<BatchNormKernel<float>>(in, shape);
}

KernelPtr make(const FrozenBatchNorm& norm, const ContextPtr& /*context*/, Formats in) {
  const Format known = channel_tag(in[0]) ? in[0] : Format::plain(in[0].shape, in[0].dtype);
  if (known.dtype == DType::bfloat16) return std::make_unique<FrozenBatchNormKernel<bfloat16>>(known, norm);
  return std::make_unique<FrozenBatchNormKernel<float>>(known, norm);
}

}  // namespace lockstep::ops::onednn
