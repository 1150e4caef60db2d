// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/explain.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/wrapped.hpp"
#include "lockstep/base/observer.hpp"
#include "nn/graph/fill.hpp"

namespace lockstep::nn {
namespace {

constexpr int warm_up = 5;  // steps that are not measured: they touch memory and make kernels
constexpr int measured = 15;

/// Keeps one time for each operator and step.
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

/// Holds memory for every tensor of a model and for its inputs.
class Trial {
 public:
  Trial(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, OptimizationPasses passes)
      : samples_(samples),
        model_(graph, ops,
               {.dtype = dtype,
                .optimizer = OptimizerOptions{.momentum = 0.9},
                .passes = passes,
                .observer = &stopwatch_}),
        parameters_(memory(ops, model_.parameters().count(), dtype)),
        gradients_(memory(ops, model_.parameters().count(), dtype)),
        velocity_(memory(ops, model_.parameters().count(), dtype)),
        state_(memory(ops, model_.state().count(), dtype)) {
    model_.bind({.parameters = parameters_.as(dtype),
                 .gradients = gradients_.as(dtype),
                 .state = state_.as(dtype),
                 .optimizer_state = {velocity_.as(dtype)}});
    model_.initialize(1);
    for (const TensorSpec& spec : graph.inputs()) {
      inputs_.push_back(allocate_host({samples * spec.elements() * size_of(spec.dtype(dtype))}));
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

  [[nodiscard]] Bytes activations() { return model_.activation_bytes(samples_); }

 private:
  static Allocation memory(const ops::Ops& ops, Count count, DType dtype) {
    return ops.device().allocate({count.value * size_of(dtype)});
  }
  void run() {
    SingleRank alone;
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

constexpr std::size_t name_columns = 40;

std::string row(const OperatorReport& op, double share) {
  return padded(op.name, name_columns) +
         format_text("%9.2f %9.1f %9.1f %6.0f %%%s", static_cast<double>(op.bytes.value) / (1 << 20),
                     static_cast<double>(op.flops) / 1e6, op.seconds * 1e6, 100 * share, share > 1 ? " *\n" : "\n");
}

/// Describes the operation, the result and the kernel, as far as they are known.
std::string description(const OperatorReport& op) {
  std::string text;
  for (const std::string* part : {&op.operation, &op.result, &op.algorithm}) {
    if (!part->empty()) text += (text.empty() ? "  " : "; ") + *part;
  }
  return text;
}

}  // namespace

double OperatorReport::share_of(const ops::MachineLimits& limits) const {
  const double moving = static_cast<double>(bytes.value) / limits.bytes_per_second;
  const double computing = limits.flops_per_second > 0 ? static_cast<double>(flops) / limits.flops_per_second : 0;
  return std::max(moving, computing) / seconds;
}

StepReport explain_step(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples,
                        OptimizationPasses passes) {
  Trial trial(graph, ops, dtype, samples, passes);
  return {.limits = ops.measure_limits(dtype),
          .operators = trial.reports(),
          .samples = samples,
          .activations = trial.activations()};
}

std::string to_text(const StepReport& step, std::size_t columns) {
  std::string text = format_text("The limit is what this rank measured: copying %.1f GB/s, read and written",
                                 step.limits.bytes_per_second / 1e9);
  text += step.limits.flops_per_second > 0
              ? format_text(", and\nmultiplying and adding %.1f GFLOP/s.\n", step.limits.flops_per_second / 1e9)
              : ".\n";
  text += padded("operator", name_columns) + "      MiB     MFLOP        us of limit\n";
  OperatorReport all{.name = "all"};
  double at_limit = 0;
  bool beyond = false;
  for (const OperatorReport& op : step.operators) {
    const double share = op.share_of(step.limits);
    text += row(op, share) + wrapped(description(op), columns, 4);
    all.bytes.value += op.bytes.value;
    all.flops += op.flops;
    all.seconds += op.seconds;
    at_limit += share * op.seconds;
    beyond = beyond || share > 1;
  }
  text += row(all, at_limit / all.seconds);
  text += format_text("Activations and their gradients take %.1f MiB for %lld samples.\n",
                      static_cast<double>(step.activations.value) / (1 << 20), static_cast<long long>(step.samples));
  if (!beyond) return text;
  return text + wrapped(
                    "* Above 100 %: its tensors stayed in caches, which are faster than the memory, or its algorithm, "
                    "such as Winograd's, multiplies less than is counted here.",
                    columns);
}

}  // namespace lockstep::nn
