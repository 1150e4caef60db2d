// SPDX-License-Identifier: Apache-2.0
#include "nn/plan/choose.hpp"

#include <algorithm>
#include <chrono>
#include <deque>

#include "base/seconds_since.hpp"
#include "lockstep/base/error.hpp"
#include "nn/graph/passes.hpp"
#include "nn/plan/kernel_bench.hpp"
#include "nn/plan/kernels.hpp"

namespace lockstep::nn {
namespace {

/// Other work on the processor can only make a turn longer, so the lower quartile says more than the mean.
double lower_quartile_of(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

using ops::KernelAlgorithms;

constexpr double least_seconds = 5e-4;  // the shortest turn, so that the resolution of the clock suffices
constexpr int most_calls = 100;         // the most calls in a turn
constexpr double hopeless = 3;          // times as long as the fastest one: such a candidate has no further turn

/// An operator of the graph that can be computed in several ways.
struct Alternative {
  std::string key;
  const ops::Operator* op;
  std::vector<ops::Format> inputs;
  std::vector<KernelAlgorithms> candidates;
  bool gives_input_gradients;  // false if the input is the graph's, whose gradient is not needed
  std::int64_t flops;
};

std::vector<Alternative> alternatives_of(const Graph& graph, ops::Ops& ops, const MeasureOptions& options) {
  const Kernels kernels = choose_kernels(graph, ops, options.dtype, options.samples, 1);
  std::vector<Alternative> found;
  for (const Node& node : graph.nodes()) {
    std::vector<ops::Format> inputs;
    std::vector<ops::Shape> shapes;
    bool is_first = true;
    for (const int value : node.inputs) {
      inputs.push_back(kernels.formats[static_cast<std::size_t>(value)]);
      shapes.push_back(inputs.back().shape);
      is_first = is_first && graph.values()[static_cast<std::size_t>(value)].producer < 0;
    }
    const std::string key = ops::key_of(node.op, inputs);
    const auto same =
        std::find_if(found.begin(), found.end(), [&](const Alternative& other) { return other.key == key; });
    if (same != found.end()) {
      same->gives_input_gradients |= !is_first;
      continue;
    }
    std::vector<KernelAlgorithms> candidates = ops.candidates(node.op, inputs);
    if (candidates.size() < 2) continue;
    found.push_back({key, &node.op, std::move(inputs), std::move(candidates), !is_first,
                     ops::signature_of(node.op, shapes).forward.flops});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Alternative& a, const Alternative& b) { return a.flops > b.flops; });
  return found;
}

/// Makes kernels with given algorithms. The destructor restores the back end's former choices.
class Maker {
 public:
  explicit Maker(ops::Ops& ops) : ops_(ops), before_(ops.choices()) {}
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  ~Maker() { ops_.use(before_); }

  /// Lets the back end choose by its rule.
  void forget() { ops_.use({}); }
  [[nodiscard]] ops::KernelPtr make(const Alternative& of, const KernelAlgorithms& algorithms, DType dtype) {
    ops::KernelChoices only;
    only.set(of.key, of.inputs[0].shape.batch, algorithms);
    ops_.use(only);
    return ops_.make(*of.op, of.inputs, dtype);
  }

 private:
  ops::Ops& ops_;
  ops::KernelChoices before_;
};

/// The kernels of an operator's candidates, which a library may still be compiling; null where it has none.
using CandidateKernels = std::vector<ops::KernelPtr>;

/// Makes the kernels of all candidates of operators some operators ahead, since a library may compile them in the
/// background while others are measured.
class CandidateQueue {
 public:
  CandidateQueue(Maker& maker, DType dtype, std::vector<const Alternative*> all)
      : maker_(maker), dtype_(dtype), all_(std::move(all)) {}

  /// Returns the kernels of the next operator.
  CandidateKernels next() {
    for (; queue_.size() <= ahead && queued_ < all_.size(); ++queued_) {
      CandidateKernels& kernels = queue_.emplace_back();
      for (const KernelAlgorithms& candidate : all_[queued_]->candidates)
        kernels.push_back(make(*all_[queued_], candidate));
    }
    CandidateKernels kernels = std::move(queue_.front());
    queue_.pop_front();
    return kernels;
  }

 private:
  static constexpr std::size_t ahead = 8;

  ops::KernelPtr make(const Alternative& of, const KernelAlgorithms& candidate) {
    try {
      return maker_.make(of, candidate, dtype_);
    } catch (const Error& error) {  // a library may learn only now that it cannot make a kernel
      if (error.code() != ErrorCode::unsupported) throw;
      return nullptr;
    }
  }

  Maker& maker_;
  DType dtype_;
  std::vector<const Alternative*> all_;
  std::size_t queued_ = 0;
  std::deque<CandidateKernels> queue_;
};

/// Measures the candidates of one operator.
class Measurement {
 public:
  /// @param made  of each candidate
  Measurement(const Alternative& of, CandidateKernels made, const ops::ComputeDevice& device,
              const MeasureOptions& options, Clock::time_point end)
      : of_(of), rules_(options.rules), end_(end) {
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] == nullptr) continue;
      try {
        (void)made[i]->workspace();
        kernels_.push_back(std::move(made[i]));
        candidates_.push_back(of.candidates[i]);
      } catch (const Error& error) {  // a library may learn only when it has compiled that it has no kernel
        if (error.code() != ErrorCode::unsupported) throw;
      }
    }
    if (kernels_.empty()) return;
    bench_.emplace(*of.op, kernels_, options.dtype, device);
    // The first forward call leaves what backward reads and does every kernel's one-time work.
    for (const auto& kernel : kernels_) bench_->run(*kernel, ops::Pass::forward, false);
    bench_->wait();  // wait for timing only
  }

  /// Returns the fastest algorithm for each pass, or nothing if the time ran out or no candidate has a kernel.
  [[nodiscard]] std::optional<KernelAlgorithms> best() {
    if (kernels_.empty()) return std::nullopt;
    KernelAlgorithms best = candidates_.front();
    const bool is_whole =
        decide(&KernelAlgorithms::forward, ops::Pass::forward, false, best) &&
        decide(&KernelAlgorithms::backward_weights, ops::Pass::backward, false, best) &&
        (!of_.gives_input_gradients || decide(&KernelAlgorithms::backward_data, ops::Pass::backward, true, best));
    return is_whole ? std::optional(best) : std::nullopt;
  }

 private:
  struct Entrant {
    std::size_t candidate;
    double seconds = 0;  // of the second call
    int calls = 1;       // of a turn
  };

  /// @return false if the time ran out
  bool decide(std::string KernelAlgorithms::*which, ops::Pass pass, bool wants_input_gradients,
              KernelAlgorithms& best) {
    std::vector<Entrant> entrants{{0}};
    for (std::size_t i = 1; i < candidates_.size(); ++i)
      if (candidates_[i].*which != candidates_[0].*which) entrants.push_back({i});
    if (entrants.size() < 2) return true;
    // The seconds of a call.
    const auto run = [&](const Entrant& entrant, int calls) {
      const Clock::time_point begin = Clock::now();
      for (int call = 0; call < calls; ++call) bench_->run(*kernels_[entrant.candidate], pass, wants_input_gradients);
      bench_->wait();  // wait for timing only
      return seconds_since(begin) / calls;
    };
    for (Entrant& entrant : entrants) {
      if (is_over()) return false;
      (void)run(entrant, 1);
      entrant.seconds = run(entrant, 1);
      entrant.calls = std::clamp(static_cast<int>(least_seconds / entrant.seconds), 1, most_calls);
    }
    const double least = std::ranges::min_element(entrants, {}, &Entrant::seconds)->seconds;
    std::erase_if(entrants,
                  [&](const Entrant& each) { return each.candidate != 0 && each.seconds > hopeless * least; });
    if (entrants.size() < 2) return true;
    const auto winner = fastest(
        entrants.size(), rules_, [&](std::size_t i) { return run(entrants[i], entrants[i].calls); },
        [&] { return is_over(); });
    if (winner) best.*which = candidates_[entrants[*winner].candidate].*which;
    return winner.has_value();
  }
  [[nodiscard]] bool is_over() const { return Clock::now() >= end_; }

  const Alternative& of_;
  ContestRules rules_;
  Clock::time_point end_;
  std::vector<KernelAlgorithms> candidates_;  // those with a kernel
  std::vector<ops::KernelPtr> kernels_;
  std::optional<KernelBench> bench_;
};

}  // namespace

std::optional<std::size_t> fastest(std::size_t entrants, const ContestRules& rules,
                                   const std::function<double(std::size_t)>& take,
                                   const std::function<bool()>& is_over) {
  std::vector<std::vector<double>> seconds(entrants);
  const auto last = static_cast<std::size_t>(rules.rounds);
  while (seconds.back().size() < last && !is_over()) {
    for (std::size_t entrant = 0; entrant < entrants && (entrant == 0 || !is_over()); ++entrant)
      seconds[entrant].push_back(take(entrant));
  }
  // A round that the time limit cut short does not count for any entrant.
  const std::size_t rounds = seconds.back().size();
  if (rounds < static_cast<std::size_t>(rules.least_rounds)) return std::nullopt;
  std::vector<double> quartiles;
  for (std::vector<double>& of_one : seconds) {
    of_one.resize(rounds);
    quartiles.push_back(lower_quartile_of(of_one));
  }
  const auto best = std::min_element(quartiles.begin(), quartiles.end());
  return *best < (1 - rules.margin) * quartiles.front() ? static_cast<std::size_t>(best - quartiles.begin()) : 0;
}

MeasuredChoices measure_kernels(const Graph& graph, ops::Ops& ops, const MeasureOptions& options,
                                const ops::KernelChoices& known) {
  const Clock::time_point begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  Maker maker(ops);
  maker.forget();
  const Graph passed = after_passes(graph, options.passes, options.synchronized, ops);
  const std::vector<Alternative> alternatives = alternatives_of(passed, ops, options);
  MeasuredChoices chosen;
  std::vector<const Alternative*> unknown;
  for (const Alternative& alternative : alternatives) {
    if (const KernelAlgorithms* before = known.at(alternative.key, options.samples)) {
      chosen.choices.set(alternative.key, options.samples, *before);
      ++chosen.known;
    } else {
      unknown.push_back(&alternative);
    }
  }
  CandidateQueue queue(maker, options.dtype, unknown);
  for (const Alternative* alternative : unknown) {
    std::optional<KernelAlgorithms> best;
    if (Clock::now() < end) best = Measurement(*alternative, queue.next(), ops.device(), options, end).best();
    best ? ++chosen.measured : ++chosen.left;
    if (best) chosen.choices.set(alternative->key, options.samples, *best);
  }
  chosen.seconds = chosen.measured + chosen.left > 0 ? seconds_since(begin) : 0;
  return chosen;
}

}  // namespace lockstep::nn
