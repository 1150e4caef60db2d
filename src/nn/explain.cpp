// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/explain.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "lockstep/base/observer.hpp"
#include "lockstep/nn/model.hpp"
#include "nn/cost.hpp"
#include "nn/fill.hpp"

namespace lockstep::nn {
namespace {

constexpr int warm_up = 5;  // steps that do not count: memory is touched, kernels are made
constexpr int measured = 15;

/// Each operator's times, one of each step.
class Stopwatch final : public Observer {
 public:
  void span(const Span& span) override {
    times_[std::string(span.name)].push_back(std::chrono::duration<double>(span.end - span.begin).count());
  }
  void clear() { times_.clear(); }
  [[nodiscard]] double median(const std::string& name) {
    std::vector<double>& times = times_[name];
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

 private:
  std::map<std::string, std::vector<double>> times_;
};

class Nobody final : public GradientSink {
 public:
  void ready(int /*parameter*/) override {}
  void between_layers() override {}
};

/// A model with memory and images of its own.
class Trial {
 public:
  Trial(const Network& network, ops::Ops& ops, DType dtype, std::int64_t batch)
      : batch_(batch),
        model_(network, ops, dtype, &stopwatch_),
        parameters_(memory(model_.parameters().count(), dtype)),
        gradients_(memory(model_.parameters().count(), dtype)),
        state_(memory(model_.state().count(), dtype)),
        images_(memory({batch * network.image().count()}, dtype)),
        labels_(static_cast<std::size_t>(batch)) {
    model_.bind(parameters_.as(dtype), gradients_.as(dtype), state_.as(dtype));
    model_.initialize(1);
    fill_uniform(images_.as(dtype), 1, "images", 1);
    for (int step = 0; step < warm_up; ++step) run();
    stopwatch_.clear();
    for (int step = 0; step < measured; ++step) run();
  }

  [[nodiscard]] double seconds(const std::string& name) { return stopwatch_.median(name); }
  [[nodiscard]] const ops::Operator& operator_of(int layer) const { return model_.operator_of(layer, batch_); }

 private:
  static Allocation memory(Count count, DType dtype) { return allocate_host({count.value * size_of(dtype)}); }
  void run() {
    (void)model_.forward(images_.data(), labels_.data(), batch_, true);
    Nobody nobody;
    model_.backward(nobody);
  }

  std::int64_t batch_;
  Stopwatch stopwatch_;
  Model model_;
  Allocation parameters_;
  Allocation gradients_;
  Allocation state_;
  Allocation images_;
  std::vector<std::int32_t> labels_;
};

std::string text_of(const ops::Format& format) {
  const ops::Shape& s = format.shape;
  std::string text;
  for (const std::int64_t extent : {s.batch, s.channels, s.height, s.width})
    text += (text.empty() ? "" : "×") + std::to_string(extent);
  return text + ' ' + std::string(format.layout);
}

OperatorReport report(const Network& network, int index, ops::Pass pass, Trial& trial, DType dtype,
                      std::int64_t batch) {
  const Layer& layer = network.layers()[static_cast<std::size_t>(index)];
  std::vector<ops::Shape> inputs;
  for (const int input : layer.inputs) {
    inputs.push_back(network.shape(input));
    inputs.back().batch = batch;
  }
  const bool reads_images = layer.inputs.front() == Network::input;
  const Cost least = cost(layer, inputs, pass, !reads_images);
  const ops::Operator& made = trial.operator_of(index);
  const bool is_forward = pass == ops::Pass::forward;
  OperatorReport report{.name = (is_forward ? "forward " : "backward ") + layer.name,
                        .operation = describe(layer.kind),
                        .result = is_forward ? text_of(made.output()) : "",
                        .algorithm = made.algorithm(pass),
                        .bytes = {least.elements * size_of(dtype)},
                        .flops = least.flops};
  report.seconds = trial.seconds(report.name);
  return report;
}

/// Padded by what a terminal shows, in which "×" takes one place.
std::string padded(const std::string& text, std::size_t width) {
  const auto shown = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  return text + std::string(shown < width ? width - shown : 0, ' ') + ' ';
}

std::string head(const ops::MachineLimits& limits) {
  char text[256];
  std::snprintf(
      text, sizeof text,
      "copying %.1f GB/s, read and written; multiplying and adding %.1f GFLOP/s; beyond that are tensors that "
      "stay in caches, and Winograd's convolutions\n",
      limits.bytes_per_second / 1e9, limits.flops_per_second / 1e9);
  return text;
}

std::string figures(const OperatorReport& op, double share) {
  char text[96];
  std::snprintf(text, sizeof text, "%9.2f %9.1f %9.1f %7.0f %%\n", static_cast<double>(op.bytes.value) / (1 << 20),
                static_cast<double>(op.flops) / 1e6, op.seconds * 1e6, 100 * share);
  return text;
}

}  // namespace

double OperatorReport::share_of(const ops::MachineLimits& limits) const {
  const double moving = static_cast<double>(bytes.value) / limits.bytes_per_second;
  const double computing = static_cast<double>(flops) / limits.flops_per_second;
  return std::max(moving, computing) / seconds;
}

StepReport explain_step(const Network& network, ops::Ops& ops, DType dtype, std::int64_t batch) {
  Trial trial(network, ops, dtype, batch);
  StepReport step{.limits = ops.measure_limits(dtype), .operators = {}};
  const int layers = static_cast<int>(network.layers().size());
  for (int layer = 0; layer < layers; ++layer)
    step.operators.push_back(report(network, layer, ops::Pass::forward, trial, dtype, batch));
  for (int layer = layers - 1; layer >= 0; --layer)
    step.operators.push_back(report(network, layer, ops::Pass::backward, trial, dtype, batch));
  return step;
}

std::string to_text(const StepReport& step) {
  std::size_t longest = 0;
  for (const OperatorReport& op : step.operators) longest = std::max(longest, op.algorithm.size());
  const auto row = [&](const std::string& name, const std::string& operation, const std::string& result,
                       const std::string& algorithm) {
    return padded(name, 32) + padded(operation, 28) + padded(result, 24) + padded(algorithm, longest);
  };
  std::string text =
      head(step.limits) + row("operator", "what", "result", "algorithm") + "      MiB     MFLOP        us  of limit\n";
  OperatorReport all;
  double at_limit = 0;
  for (const OperatorReport& op : step.operators) {
    const double share = op.share_of(step.limits);
    text += row(op.name, op.operation, op.result, op.algorithm) + figures(op, share);
    all.bytes.value += op.bytes.value;
    all.flops += op.flops;
    all.seconds += op.seconds;
    at_limit += share * op.seconds;
  }
  return text + row("all", "", "", "") + figures(all, at_limit / all.seconds);
}

}  // namespace lockstep::nn
