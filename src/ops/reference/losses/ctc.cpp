// SPDX-License-Identifier: Apache-2.0
#include "ops/formulas/ctc.hpp"

#include <algorithm>
#include <limits>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

using ctc::impossible;
using ctc::Transcript;

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
        largest_(sums_.size()),
        likeliest_(sums_.size()) {}

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
  /// The numbers of all states at a step.
  double* prefixes(std::int64_t step) { return prefixes_.data() + step * (2 * longest_ + 1); }

  /// Returns a sample; one with a bad value is reported and has no states.
  Transcript transcript(const Arguments& call, std::int64_t n) const {
    const auto integers = [&](std::size_t i) { return static_cast<const std::int32_t*>(call.inputs[i]); };
    const ctc::Transcripts samples{.targets = integers(1),
                                   .lengths = integers(2),
                                   .steps = call.inputs.size() == 4 ? integers(3) : nullptr,
                                   .longest = longest_,
                                   .most_steps = logits_.width,
                                   .classes = logits_.channels,
                                   .blank = loss_.blank};
    if (const Fault bad = samples.fault_of(n); bad.code != FaultCode::none)
      call.report(bad.code, n, bad.value, bad.limit);
    return samples.at(n);
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

  [[nodiscard]] bool reads_right(const Transcript& sample) {
    for (std::int64_t t = 0; t < sample.steps; ++t) likeliest_[static_cast<std::size_t>(t)] = likeliest(t);
    return sample.is_read(likeliest_.data());
  }

  /// Returns the likeliest class of a step; the first one if there are several.
  [[nodiscard]] std::int32_t likeliest(std::int64_t step) const {
    std::int32_t best = 0;
    for (std::int32_t c = 1; c < logits_.channels; ++c) {
      if (softmax_[static_cast<std::size_t>(at(c, step))] > softmax_[static_cast<std::size_t>(at(best, step))])
        best = c;
    }
    return best;
  }

  /// Returns the log probability of all paths. `prefixes_` has that of their beginnings up to and including each step
  /// in each state.
  double log_probability(const Transcript& sample) {
    for (std::int64_t t = 0; t < sample.steps; ++t) {
      for (std::int64_t s = 0; s < sample.states; ++s) {
        const double before = t > 0 ? sample.reached(prefixes(t - 1), s) : s < 2 ? 0 : impossible;
        prefixes(t)[s] = before + emission(sample, s, t);
      }
    }
    return sample.of_all_paths(prefixes(std::max<std::int64_t>(sample.steps, 1) - 1));
  }

  /// Sets the probability of each class at each step among all paths. `suffixes_` has the log probability of the ends
  /// of paths, from the following step on, which is included.
  void occupy(const Transcript& sample, double whole) {
    std::fill(occupancy_.begin(), occupancy_.end(), 0.0);
    for (std::int64_t t = sample.steps - 1; t >= 0; --t) {
      for (std::int64_t s = 0; s < sample.states; ++s) {
        const double ends = t == sample.steps - 1 ? sample.left_at_end(s) : sample.left(suffixes_.data(), s);
        occupancy_[static_cast<std::size_t>(at(sample.label(s), t))] += std::exp(prefixes(t)[s] + ends - whole);
        // A state reads only its own suffix and later ones, so the following states do not need this one.
        suffixes_[static_cast<std::size_t>(s)] = ends;
      }
      for (std::int64_t s = 0; s < sample.states; ++s) suffixes_[static_cast<std::size_t>(s)] += emission(sample, s, t);
    }
  }

  Ctc loss_;
  Shape logits_;
  std::int64_t longest_;  ///< the most targets of a sample
  // These are for one sample.
  std::vector<double> softmax_;          ///< logarithm of the softmax, indexed by `at`
  std::vector<double> occupancy_;        ///< indexed by `at`
  std::vector<double> prefixes_;         ///< steps × states
  std::vector<double> suffixes_;         ///< states
  std::vector<double> sums_;             ///< steps
  std::vector<double> largest_;          ///< steps
  std::vector<std::int32_t> likeliest_;  ///< steps
};

}  // namespace

KernelPtr make(const Ctc& loss, Formats in) { return make_for<CtcKernel>(in, loss); }

}  // namespace lockstep::ops::reference
