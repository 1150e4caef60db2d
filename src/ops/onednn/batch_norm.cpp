// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/moments.hpp"
#include "ops/onednn/channel_layout.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/team.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Both inputs in the format of the first.
std::vector<Format> inputs_of(const BatchNorm& shape, std::span<const Format> in) {
  if (!shape.residual) return {in[0]};
  return {in[0], to_desc(in[0]) == to_desc(in[1]) ? in[1] : in[0]};
}

/// Groups of channels are worked on in turn, so that a group's second pass finds in caches what its first has brought
/// there. The team's members have images of their own.
///
/// Saved for backward, of each channel, fill-up included: what x is multiplied by and what is added, in double, then
/// mean and inverse standard deviation.
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(std::span<const Format> in, const BatchNorm& shape)
      : shape_(shape),
        out_(in[0]),
        layout_(channel_layout(in[0])),
        members_(team_size()),
        running_line_(static_cast<std::size_t>(2 * layout_.channels())),
        sums_(running_line_.size() * static_cast<std::size_t>(members_)),
        coefficients_(static_cast<std::size_t>(rows * layout_.channels())) {
    const std::int64_t each = 2 * static_cast<std::int64_t>(sizeof(double) + sizeof(float));
    const std::int64_t exchanged = shape.synchronised ? 3 * out_.shape.channels : 0;
    set({.inputs = inputs_of(shape, in),
         .output = out_,
         .saved = {each * layout_.channels()},
         .backward_reads_first_input = true,
         .backward_reads_output = shape.residual && is_clipped(),
         .recomputable = !shape.residual,
         .takes_two_gradients = shape.residual || is_clipped(),
         .in_place_gradient = shape.residual ? 1 : 0,
         .forward_part = exchanged,
         .backward_part = exchanged});
  }

  void measure(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) { sum_values(call, groups); });
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) {
      const Moments own = own_moments(c);
      double* part = call.part + 3 * c;
      part[0] = own.count;
      part[1] = own.mean;
      part[2] = own.squares;
    }
  }

  void forward(const Arguments& call) override {
    auto* line = static_cast<double*>(call.saved);
    std::memset(line, 0, static_cast<std::size_t>(traits().saved.value));  // beyond the last channel too
    for_each_chunk([&](const Groups& groups) {
      if (!shape_.synchronised) sum_values(call, groups);
      for_channels(groups, [&](std::int64_t c) {
        const Statistics moments = batch_statistics(call, c);
        saved(call, mean)[c] = static_cast<float>(moments.mean);
        saved(call, inverse_deviation)[c] = static_cast<float>(set_line(call, moments, line, c));
      });
      normalise(call, line, groups);
    });
  }

  void recompute(const Arguments& call) override { normalise(call, static_cast<const double*>(call.saved), all()); }

  void infer(const Arguments& call) override {
    for_channels(all(), [&](std::int64_t c) { set_line(call, running_statistics(call, c), running_line_.data(), c); });
    normalise(call, running_line_.data(), all());
  }

  void measure_backward(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) { sum_gradients(call, groups); });
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) {
      double* part = call.part + 3 * c;
      part[0] = sum(c);
      part[1] = product(c);
      part[2] = values();
    }
  }

  void backward(const Arguments& call) override {
    for_each_chunk([&](const Groups& groups) {
      shape_.synchronised ? set_thresholds(call, groups) : sum_gradients(call, groups);
      for_channels(groups, [&](std::int64_t c) { backward_channel(call, c); });
      if (call.input_gradients[0] != nullptr) backward_input(call, groups);
    });
    if (!shape_.residual) return;
    void* residual = call.input_gradients[1];
    if (residual != nullptr && residual != call.output_gradient)
      std::memcpy(residual, call.output_gradient, static_cast<std::size_t>(out_.bytes.value));
  }

 private:
  // Rows of what is saved, and of `coefficients_`.
  static constexpr std::int64_t mean = 0;
  static constexpr std::int64_t inverse_deviation = 1;
  static constexpr std::int64_t scale = 1;
  static constexpr std::int64_t slope = 2;
  static constexpr std::int64_t intercept = 3;
  static constexpr std::int64_t direction = 4;
  static constexpr std::int64_t from = 5;
  static constexpr std::int64_t to = 6;
  static constexpr std::int64_t rows = 7;

  struct Groups {
    std::int64_t begin;
    std::int64_t end;
  };
  struct Statistics {
    double mean;
    double variance;
  };

  static int team_size() {
    int size = 1;
    on_team([&size](int member, int members) {
      if (member == 0) size = members;
    });
    return size;
  }

  [[nodiscard]] Groups all() const { return {0, layout_.groups}; }

  /// As few groups as are read in long runs.
  template <typename Body>
  void for_each_chunk(const Body& body) const {
    constexpr std::int64_t long_run = 1024;
    const std::int64_t at_once = std::max<std::int64_t>(1, long_run / (layout_.positions * layout_.lanes));
    for (std::int64_t begin = 0; begin < layout_.groups; begin += at_once)
      body(Groups{begin, std::min(begin + at_once, layout_.groups)});
  }

  template <typename Body>
  void for_channels(const Groups& groups, const Body& body) const {
    const std::int64_t end = std::min(groups.end * layout_.lanes, out_.shape.channels);
    for (std::int64_t c = groups.begin * layout_.lanes; c < end; ++c) body(c);
  }

  /// Calls `body(part, member)` on each member of the team.
  template <typename Body>
  void for_each_part(const Groups& groups, const Body& body) const {
    const auto of_member = [&](int member, int members) {
      body(kernels::TensorPart{layout_.images * member / members, layout_.images * (member + 1) / members, groups.begin,
                               groups.end},
           member);
    };
    on_team([&of_member](int member, int members) { of_member(member, members); });  // small enough not to be allocated
  }

  void sum_values(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    for_each_part(groups, [&](const kernels::TensorPart& part, int member) {
      kernels::sum_channels(layout_, part, x, sums_of(member), products_of(member));
    });
    add_up(groups);
  }

  void normalise(const Arguments& call, const double* line, const Groups& groups) const {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    const auto* residual = shape_.residual ? static_cast<const float*>(call.inputs[1]) : nullptr;
    const kernels::ForwardCoefficients coefficients{line, line + layout_.channels(), clip()};
    for_each_part(groups, [&](const kernels::TensorPart& part, int /*member*/) {
      kernels::normalise(layout_, part, coefficients, x, residual, static_cast<float*>(call.output));
    });
  }

  /// Of what lies before the activation. That is left in the output's gradient where the next pass would have to read
  /// more than that to find it again.
  void sum_gradients(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    set_thresholds(call, groups);
    const auto* second = static_cast<const float*>(call.second_output_gradient);
    auto* dy = static_cast<float*>(call.output_gradient);
    for_each_part(groups, [&](const kernels::TensorPart& part, int member) {
      kernels::sum_gradients(layout_, part, saved(call, mean), x, {dy, second, dy, mask(call)}, sums_of(member),
                             products_of(member));
    });
    add_up(groups);
  }

  void backward_input(const Arguments& call, const Groups& groups) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    const auto* dy = static_cast<const float*>(call.output_gradient);
    auto* dx = static_cast<float*>(call.input_gradients[0]);
    const bool done = shape_.residual || call.second_output_gradient != nullptr;
    const kernels::Mask left = done ? kernels::Mask{} : mask(call);
    for_each_part(groups, [&](const kernels::TensorPart& part, int /*member*/) {
      kernels::backward_input(layout_, part,
                              {saved(call, mean), coefficient(scale), coefficient(slope), coefficient(intercept)}, left,
                              x, dy, dx);
    });
  }

  [[nodiscard]] kernels::Mask mask(const Arguments& call) const {
    if (!is_clipped()) return {};
    const bool six = shape_.activation == Activation::relu6;
    if (shape_.residual) return {.output = static_cast<const float*>(call.output), .six = six};
    return {.direction = coefficients_.data() + direction * layout_.channels(),
            .from = coefficients_.data() + from * layout_.channels(),
            .to = coefficients_.data() + to * layout_.channels(),
            .six = six};
  }

  void set_thresholds(const Arguments& call, const Groups& groups) {
    if (!is_clipped() || shape_.residual) return;
    const auto* line = static_cast<const double*>(call.saved);
    for_channels(groups, [&](std::int64_t c) {
      const double factor = line[c];
      const double summand = line[layout_.channels() + c];
      const kernels::Threshold threshold = kernels::threshold_of(factor, summand);
      coefficient(direction)[c] = threshold.direction;
      coefficient(from)[c] = threshold.from;
      if (shape_.activation == Activation::relu6) coefficient(to)[c] = kernels::threshold_of_six(factor, summand).from;
    });
  }

  /// What the team's members have found becomes the first one's, in their order.
  void add_up(const Groups& groups) {
    for (int member = 1; member < members_; ++member) {
      for (std::int64_t c = groups.begin * layout_.lanes; c < groups.end * layout_.lanes; ++c) {
        sums_of(0)[c] += sums_of(member)[c];
        products_of(0)[c] += products_of(member)[c];
      }
    }
  }

  /// y = (x − mean)·γ·istd + β, as a line over x. In double, so that the result is rounded only once. @return istd
  double set_line(const Arguments& call, const Statistics& moments, double* line, std::int64_t c) const {
    const double istd = 1 / std::sqrt(moments.variance + shape_.epsilon);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    line[c] = factor;
    line[layout_.channels() + c] =
        static_cast<double>(static_cast<const float*>(call.parameters[1])[c]) - moments.mean * factor;
    return istd;
  }

  /// From the sums of a channel.
  [[nodiscard]] Moments own_moments(std::int64_t c) {
    const double average = sum(c) / values();
    // In double the difference of two squares of float32 values keeps what it needs.
    return {values(), average, std::max(product(c) - values() * average * average, 0.0)};
  }

  /// Updates the running statistics.
  [[nodiscard]] Statistics batch_statistics(const Arguments& call, std::int64_t c) {
    const Moments all = shape_.synchronised ? merged_moments(call.parts, out_.shape.channels, c) : own_moments(c);
    const double variance = all.squares / all.count;
    update(static_cast<float*>(call.state[0])[c], all.mean);
    // A single value has no unbiased variance; its biased one, 0, is used.
    update(static_cast<float*>(call.state[1])[c], all.count > 1 ? variance * all.count / (all.count - 1) : variance);
    return {all.mean, variance};
  }

  [[nodiscard]] static Statistics running_statistics(const Arguments& call, std::int64_t c) {
    return {static_cast<double>(static_cast<const float*>(call.state[0])[c]),
            static_cast<double>(static_cast<const float*>(call.state[1])[c])};
  }

  /// dx = γ·istd·(g − Σg/m − x̂·Σ(g·x̂)/m) with x̂ = (x − mean)·istd, as coefficients of g and x.
  void backward_channel(const Arguments& call, std::int64_t c) {
    const auto istd = static_cast<double>(saved(call, inverse_deviation)[c]);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    const bool alone = !shape_.synchronised;
    const std::int64_t channels = out_.shape.channels;
    const double own_sum = alone ? sum(c) : call.part[3 * c];
    const double own_product = alone ? product(c) : call.part[3 * c + 1];
    static_cast<float*>(call.parameter_gradients[0])[c] = static_cast<float>(own_product * istd);
    static_cast<float*>(call.parameter_gradients[1])[c] = static_cast<float>(own_sum);
    const double all_sum = alone ? own_sum : merged_sum(call.parts, channels, c, 0);
    const double all_product = alone ? own_product : merged_sum(call.parts, channels, c, 1);
    const double count = alone ? values() : merged_sum(call.parts, channels, c, 2);
    coefficient(scale)[c] = static_cast<float>(factor);
    coefficient(slope)[c] = static_cast<float>(factor * istd * istd * all_product / count);
    coefficient(intercept)[c] = static_cast<float>(factor * all_sum / count);
  }

  void update(float& running, double batch) const {
    running = static_cast<float>((1 - shape_.momentum) * static_cast<double>(running) + shape_.momentum * batch);
  }

  /// A row of floats behind the line.
  [[nodiscard]] float* saved(const Arguments& call, std::int64_t row) const {
    return reinterpret_cast<float*>(static_cast<double*>(call.saved) + 2 * layout_.channels()) +
           row * layout_.channels();
  }
  /// One row of per-channel values; zero beyond the last channel, which keeps a block's fill-up zero.
  [[nodiscard]] float* coefficient(std::int64_t row) { return coefficients_.data() + row * layout_.channels(); }
  [[nodiscard]] double* sums_of(int member) { return sums_.data() + 2 * member * layout_.channels(); }
  [[nodiscard]] double* products_of(int member) { return sums_of(member) + layout_.channels(); }
  [[nodiscard]] double sum(std::int64_t c) { return sums_of(0)[c]; }
  [[nodiscard]] double product(std::int64_t c) { return products_of(0)[c]; }
  [[nodiscard]] bool is_clipped() const { return shape_.activation != Activation::none; }
  [[nodiscard]] kernels::Clip clip() const {
    if (!is_clipped()) return kernels::Clip::none;
    return shape_.activation == Activation::relu ? kernels::Clip::relu : kernels::Clip::relu6;
  }
  /// Values that a channel's statistics are taken over.
  [[nodiscard]] double values() const { return static_cast<double>(layout_.images * layout_.positions); }

  BatchNorm shape_;
  Format out_;
  kernels::ChannelLayout layout_;
  int members_;
  std::vector<double> running_line_;  ///< zero beyond the last channel, which keeps a block's fill-up zero
  std::vector<double> sums_;          ///< of each member: of a channel's values, then of their products
  std::vector<float> coefficients_;
};

}  // namespace

std::unique_ptr<Kernel> make(const BatchNorm& shape, const ContextPtr& /*context*/, std::span<const Format> in) {
  return std::make_unique<BatchNormKernel>(in, shape);
}

}  // namespace lockstep::ops::onednn
