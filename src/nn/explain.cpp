// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/explain.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "lockstep/base/observer.hpp"
#include "lockstep/nn/model.hpp"
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

/// Memory for every tensor of a model, and for its inputs.
class Trial {
 public:
  Trial(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, Passes passes)
      : samples_(samples),
        model_(graph, ops,
               {.dtype = dtype, .sgd = SgdOptions{.momentum = 0.9}, .passes = passes, .observer = &stopwatch_}),
        parameters_(memory(model_.parameters().count(), dtype)),
        gradients_(memory(model_.parameters().count(), dtype)),
        velocity_(memory(model_.parameters().count(), dtype)),
        state_(memory(model_.state().count(), dtype)) {
    model_.bind({.parameters = parameters_.as(dtype),
                 .gradients = gradients_.as(dtype),
                 .state = state_.as(dtype),
                 .velocity = velocity_.as(dtype)});
    model_.initialize(1);
    for (const TensorSpec& spec : graph.inputs()) {
      inputs_.push_back(memory({samples * spec.elements()}, spec.dtype(dtype)));
      if (spec.content == Content::real) fill_uniform(inputs_.back().as(dtype), 1, spec.name, 0, 1);
      pointers_.push_back(inputs_.back().data());
    }
    for (int step = 0; step < warm_up; ++step) run();
    stopwatch_.clear();
    for (int step = 0; step < measured; ++step) run();
  }

  [[nodiscard]] std::vector<OperatorReport> reports() {
    std::vector<OperatorReport> reports = model_.operators(samples_);
    for (OperatorReport& report : reports) report.seconds = stopwatch_.median(report.name);
    return reports;
  }

 private:
  static Allocation memory(Count count, DType dtype) { return allocate_host({count.value * size_of(dtype)}); }
  void run() {
    NoPeers alone;
    (void)model_.train({.samples = samples_, .inputs = pointers_}, {.samples = static_cast<double>(samples_)}, alone);
  }

  std::int64_t samples_;
  Stopwatch stopwatch_;
  Model model_;
  Allocation parameters_;
  Allocation gradients_;
  Allocation velocity_;
  Allocation state_;
  std::vector<Allocation> inputs_;
  std::vector<const void*> pointers_;
};

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

StepReport explain_step(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, Passes passes) {
  Trial trial(graph, ops, dtype, samples, passes);
  return {.limits = ops.measure_limits(dtype), .operators = trial.reports()};
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
