// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

/// Returns log(eᵃ + eᵇ + eᶜ).
double log_add(double a, double b, double c) {
  if (b > a) std::swap(a, b);
  if (c > a) std::swap(a, c);
  if (a == impossible) return a + b + c;  // NaN if one of them is a NaN
  return a + std::log(1 + std::exp(b - a) + std::exp(c - a));
}

/// One sample. Its targets are expanded to states: blank, target, blank, …, target, blank.
struct Transcript {
  const std::int32_t* targets;
  std::int64_t states;
  std::int64_t steps;
  std::int32_t blank;

  [[nodiscard]] std::int32_t label(std::int64_t state) const { return state % 2 == 0 ? blank : targets[state / 2]; }
  /// Returns whether a path may skip the state before this one: a blank between two different targets.
  [[nodiscard]] bool skips_to(std::int64_t state) const {
    return state % 2 == 1 && state >= 3 && label(state) != label(state - 2);
  }
};

/// Computes one sample after the other, in double, with logarithms of probabilities.
template <typename T>
class CtcKernel final : public Kernel {
 public:
  CtcKernel(Formats in, const Ctc& loss)
      : Kernel(loss_traits(in)),
        loss_(loss),
        logits_(in[0].shape),
        longest_(in[1].shape.width),
        softmax_(static_cast<std::size_t>(logits_.channels * logits_.width)),
        occupancy_(softmax_.size()),
        prefixes_(static_cast<std::size_t>((2 * longest_ + 1) * logits_.width)),
        suffixes_(static_cast<std::size_t>(2 * longest_ + 1)),
        sums_(static_cast<std::size_t>(logits_.width)),
        largest_(sums_.size()) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = static_cast<double>(logits_.batch);
  }

  void forward(const Arguments& call) override {
    LossSums loss_sums{.weight = static_cast<double>(logits_.batch)};
    for (std::int64_t n = 0; n < logits_.batch; ++n) {
      const Transcript sample = transcript(call, n);
      if (sample.states == 0) continue;
      log_softmax(logits_of(call, n), sample.steps);
      const double loss = -log_probability(sample);
      if (!(loss_.zero_infinity && std::isinf(loss))) loss_sums.loss += loss;
      if (reads_right(sample)) ++loss_sums.correct;
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  /// Computes softmax − the probability of each class at each step among the paths that yield the targets.
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const double factor = factor_of(call);
    const std::int64_t each = logits_.channels * logits_.width;
    for (std::int64_t n = 0; n < logits_.batch; ++n) {
      T* gradient = static_cast<T*>(call.input_gradients[0]) + n * each;
      std::fill_n(gradient, each, T{0});
      const Transcript sample = transcript(call, n);
      if (sample.states == 0) continue;
      log_softmax(logits_of(call, n), sample.steps);
      const double whole = log_probability(sample);
      if (loss_.zero_infinity && std::isinf(whole)) continue;
      occupy(sample, whole);
      for (std::int64_t c = 0; c < logits_.channels; ++c) {
        for (std::int64_t i = at(c, 0); i < at(c, sample.steps); ++i) {
          const auto k = static_cast<std::size_t>(i);
          gradient[i] = static_cast<T>(scaled(factor, std::exp(softmax_[k]) - occupancy_[k]));
        }
      }
    }
  }

 private:
  /// Returns the index of a sample's logit.
  [[nodiscard]] std::int64_t at(std::int64_t label, std::int64_t step) const { return label * logits_.width + step; }
  [[nodiscard]] const T* logits_of(const Arguments& call, std::int64_t n) const {
    return static_cast<const T*>(call.inputs[0]) + n * logits_.channels * logits_.width;
  }
  [[nodiscard]] double emission(const Transcript& sample, std::int64_t state, std::int64_t step) const {
    return softmax_[static_cast<std::size_t>(at(sample.label(state), step))];
  }
  double& prefix(std::int64_t state, std::int64_t step) {
    return prefixes_[static_cast<std::size_t>(step * (2 * longest_ + 1) + state)];
  }

  /// Returns a sample; one with a bad value is reported and has no states.
  Transcript transcript(const Arguments& call, std::int64_t n) const {
    const auto* targets = static_cast<const std::int32_t*>(call.inputs[1]) + n * longest_;
    const std::int64_t length = static_cast<const std::int32_t*>(call.inputs[2])[n];
    const std::int64_t steps =
        call.inputs.size() == 4 ? static_cast<const std::int32_t*>(call.inputs[3])[n] : logits_.width;
    const auto refused = [&](FaultCode code, std::int64_t value, std::int64_t limit) -> Transcript {
      call.report(code, n, value, limit);
      return {targets, 0, 0, loss_.blank};
    };
    if (length < 0 || length > longest_) return refused(FaultCode::targets, length, longest_);
    if (steps < 0 || steps > logits_.width) return refused(FaultCode::steps, steps, logits_.width);
    for (std::int64_t i = 0; i < length; ++i) {
      if (targets[i] < 0 || targets[i] >= logits_.channels || targets[i] == loss_.blank)
        return refused(FaultCode::target, targets[i], logits_.channels);
    }
    return {targets, 2 * length + 1, steps, loss_.blank};
  }

  void log_softmax(const T* logits, std::int64_t steps) {
    std::fill_n(largest_.begin(), steps, impossible);
    std::fill_n(sums_.begin(), steps, 0.0);
    each(steps,
         [&](std::size_t t, std::size_t i) { largest_[t] = std::max(static_cast<double>(logits[i]), largest_[t]); });
    each(steps, [&](std::size_t t, std::size_t i) {
      softmax_[i] = static_cast<double>(logits[i]) - largest_[t];
      sums_[t] += std::exp(softmax_[i]);
    });
    for (std::int64_t t = 0; t < steps; ++t)
      sums_[static_cast<std::size_t>(t)] = std::log(sums_[static_cast<std::size_t>(t)]);
    each(steps, [&](std::size_t t, std::size_t i) { softmax_[i] -= sums_[t]; });
  }

  /// Calls `f(step, index of the logit)`, class by class.
  template <typename F>
  void each(std::int64_t steps, const F& f) const {
    for (std::int64_t c = 0; c < logits_.channels; ++c) {
      for (std::int64_t t = 0; t < steps; ++t) f(static_cast<std::size_t>(t), static_cast<std::size_t>(at(c, t)));
    }
  }

  /// Returns whether the likeliest class at each step, without repetitions and blanks, yields the targets.
  [[nodiscard]] bool reads_right(const Transcript& sample) const {
    std::int64_t read = 0;
    std::int64_t last = sample.blank;
    for (std::int64_t t = 0; t < sample.steps; ++t) {
      const std::int64_t best = likeliest(t);
      if (best != last && best != sample.blank) {
        if (read == sample.states / 2 || sample.targets[read] != best) return false;
        ++read;
      }
      last = best;
    }
    return read == sample.states / 2;
  }

  /// Returns the likeliest class of a step; the first one if there are several.
  [[nodiscard]] std::int64_t likeliest(std::int64_t step) const {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < logits_.channels; ++c) {
      if (softmax_[static_cast<std::size_t>(at(c, step))] > softmax_[static_cast<std::size_t>(at(best, step))])
        best = c;
    }
    return best;
  }

  /// Returns the log probability of all paths. `prefix(state, step)` is that of their beginnings up to and including
  /// this step in this state.
  double log_probability(const Transcript& sample) {
    if (sample.steps == 0) return sample.states == 1 ? 0 : impossible;
    for (std::int64_t s = 0; s < sample.states; ++s) prefix(s, 0) = s < 2 ? emission(sample, s, 0) : impossible;
    for (std::int64_t t = 1; t < sample.steps; ++t) {
      for (std::int64_t s = 0; s < sample.states; ++s) {
        const double stays = prefix(s, t - 1);
        const double comes = s >= 1 ? prefix(s - 1, t - 1) : impossible;
        const double skips = sample.skips_to(s) ? prefix(s - 2, t - 1) : impossible;
        prefix(s, t) = emission(sample, s, t) + log_add(stays, comes, skips);
      }
    }
    const std::int64_t last = sample.steps - 1;
    return log_add(prefix(sample.states - 1, last), sample.states > 1 ? prefix(sample.states - 2, last) : impossible,
                   impossible);
  }

  /// Sets the probability of each class at each step among all paths. `suffixes_` has the log probability of the ends
  /// of paths, from the following step on, which is included.
  void occupy(const Transcript& sample, double whole) {
    std::fill(occupancy_.begin(), occupancy_.end(), 0.0);
    for (std::int64_t t = sample.steps - 1; t >= 0; --t) {
      for (std::int64_t s = 0; s < sample.states; ++s) {
        const double ends = t == sample.steps - 1 ? (s >= sample.states - 2 ? 0 : impossible) : after(sample, s);
        occupancy_[static_cast<std::size_t>(at(sample.label(s), t))] += std::exp(prefix(s, t) + ends - whole);
        // A state reads only its own suffix and later ones, so the following states do not need this one.
        suffixes_[static_cast<std::size_t>(s)] = ends;
      }
      for (std::int64_t s = 0; s < sample.states; ++s) suffixes_[static_cast<std::size_t>(s)] += emission(sample, s, t);
    }
  }

  [[nodiscard]] double after(const Transcript& sample, std::int64_t state) const {
    const auto s = static_cast<std::size_t>(state);
    return log_add(suffixes_[s], state + 1 < sample.states ? suffixes_[s + 1] : impossible,
                   state + 2 < sample.states && sample.skips_to(state + 2) ? suffixes_[s + 2] : impossible);
  }

  Ctc loss_;
  Shape logits_;
  std::int64_t longest_;  ///< the most targets of a sample
  // These are for one sample.
  std::vector<double> softmax_;    ///< logarithm of the softmax, indexed by `at`
  std::vector<double> occupancy_;  ///< indexed by `at`
  std::vector<double> prefixes_;   ///< steps × states
  std::vector<double> suffixes_;   ///< states
  std::vector<double> sums_;       ///< steps
  std::vector<double> largest_;    ///< steps
};

}  // namespace

KernelPtr make(const Ctc& loss, Formats in) { return make_for<CtcKernel>(in, loss); }

}  // namespace lockstep::ops::reference
