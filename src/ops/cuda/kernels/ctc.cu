// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/device/classes.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/ctc.hpp"

namespace lockstep::ops::cuda {
namespace {

/// All threads of a block work on the states of one sample.
using SampleTeam = Team<threads_per_block>;

/// The result of a sample.
struct ReadSample {
  double log_probability;
  double loss;
  double correct;
};

/// A call of the loss. Positions are the steps of all samples, one sample after the other.
struct CtcCall {
  ctc::Transcripts samples;
  TensorView view;
  std::int64_t states;  ///< the most of a sample
  bool zero_infinity;

  CtcCall(const Format& logits, const Shape& targets, const Ctc& op)
      : samples{nullptr, nullptr, nullptr, targets.width, logits.shape.width, logits.shape.channels, op.blank},
        view(view_of(logits)),
        states(2 * targets.width + 1),
        zero_infinity(op.zero_infinity) {}
  /// Returns the call with the inputs.
  [[nodiscard]] CtcCall with(const Arguments& call) const {
    CtcCall result = *this;
    const auto integers = [&](std::size_t i) {
      return i < call.inputs.size() ? static_cast<const std::int32_t*>(call.inputs[i]) : nullptr;
    };
    result.samples.targets = integers(1);
    result.samples.lengths = integers(2);
    result.samples.steps = integers(3);
    return result;
  }
};

/// The workspace of a call.
struct CtcMemory {
  double* log_sums;         ///< log Σ exp(logit) at each position
  double* paths;            ///< by position and state, log probabilities of beginnings; then probabilities of the state
  double* ends;             ///< by sample, two steps and state, log probabilities of ends
  ReadSample* read;         ///< by sample
  void* partials;           ///< for the sum over the samples
  std::int32_t* likeliest;  ///< the likeliest class at each position

  CtcMemory(const CtcCall& of, void* workspace) : log_sums(static_cast<double*>(workspace)) {
    paths = log_sums + of.view.positions();
    ends = paths + of.view.positions() * of.states;
    read = reinterpret_cast<ReadSample*>(ends + 2 * of.view.samples * of.states);
    partials = read + of.view.samples;
    likeliest = reinterpret_cast<std::int32_t*>(static_cast<char*>(partials) + loss_workspace(of.view.samples).value);
  }
  static Bytes bytes(const CtcCall& of) {
    const std::int64_t doubles = of.view.positions() * (1 + of.states) + 2 * of.view.samples * of.states;
    return {doubles * static_cast<std::int64_t>(sizeof(double)) +
            of.view.samples * static_cast<std::int64_t>(sizeof(ReadSample)) + loss_workspace(of.view.samples).value +
            of.view.positions() * static_cast<std::int64_t>(sizeof(std::int32_t))};
  }
};

/// Finds the divisor of the softmax and the likeliest class of each position.
template <typename E>
void normalize(const CtcCall& all, const void* logits, const CtcMemory& memory, Queue queue) {
  for_each_run<team_size>(
      all.view.positions(),
      [=] __device__(std::int64_t position, bool exists, const PositionTeam& team) {
        const Scores<E> scores{logits, position * all.view.padded, all.view.channels};
        const Largest largest = scores.largest(team);
        const float sum = scores.sum_of_exponentials(largest.value, team);
        if (!exists || team.lane != 0) return;
        memory.log_sums[position] = static_cast<double>(largest.value) + std::log(static_cast<double>(sum));
        memory.likeliest[position] = static_cast<std::int32_t>(largest.at);
      },
      queue);
}

/// Goes through the steps of each sample, forward, and with `occupy` back again.
template <typename E>
struct FollowPaths {
  CtcCall all;
  CtcMemory memory;
  const void* logits;
  bool occupy;

  /// The log probability of a state's label at a position.
  __device__ double emission(const ctc::Transcript& sample, std::int64_t state, std::int64_t position) const {
    const float logit = load<E>(logits, position * all.view.padded + sample.label(state));
    return static_cast<double>(logit) - memory.log_sums[position];
  }

  __device__ void operator()(std::int64_t n, bool /*exists*/, const SampleTeam& team) const {
    const ctc::Transcript sample = all.samples.at(n);
    const std::int64_t first = n * all.view.width;
    double* const paths = memory.paths + first * all.states;
    for (std::int64_t t = 0; t < sample.steps; ++t) {
      double* const now = paths + t * all.states;
      for (std::int64_t s = team.lane; s < sample.states; s += threads_per_block) {
        const double before = t > 0 ? sample.reached(now - all.states, s) : s < 2 ? 0 : ctc::impossible;
        now[s] = before + emission(sample, s, first + t);
      }
      __syncthreads();
    }
    const double whole = sample.states == 0 ? 0 : sample.of_all_paths(paths + (sample.steps - 1) * all.states);
    __syncthreads();
    if (team.lane == 0) {
      const std::int32_t* likeliest = memory.likeliest + first;
      const bool counts = sample.states > 0;
      const bool is_left_out = !counts || (all.zero_infinity && whole == ctc::impossible);
      memory.read[n] = {whole, is_left_out ? 0 : -whole, counts && sample.is_read(likeliest) ? 1.0 : 0.0};
    }
    if (occupy) go_back(n, sample, whole, team);
  }

  /// Turns the log probabilities of beginnings into the probabilities of states at each step.
  __device__ void go_back(std::int64_t n, const ctc::Transcript& sample, double whole, const SampleTeam& team) const {
    const std::int64_t first = n * all.view.width;
    double* const ends = memory.ends + 2 * n * all.states;
    for (std::int64_t t = sample.steps - 1; t >= 0; --t) {
      double* const now = memory.paths + (first + t) * all.states;
      double* const written = ends + t % 2 * all.states;
      const double* const after = ends + (t + 1) % 2 * all.states;
      for (std::int64_t s = team.lane; s < sample.states; s += threads_per_block) {
        const double end = t == sample.steps - 1 ? sample.left_at_end(s) : sample.left(after, s);
        now[s] = std::exp(now[s] + end - whole);
        written[s] = end + emission(sample, s, first + t);
      }
      __syncthreads();
    }
  }
};

/// Submits the sums over the samples, and reports the first bad value.
void sum_samples(const CtcCall& all, const CtcMemory& memory, const Arguments& call) {
  const ReadSample* read = memory.read;
  const std::int64_t count = all.view.samples;
  const ctc::Transcripts samples = all.samples;
  auto* to = static_cast<LossSums*>(call.output);
  Fault* fault = call.fault;
  const std::int32_t node = call.node;
  if (count == 0) return write_weight(call, 0);
  sum_rows<LossTerms>(
      count, 1,
      [=] __device__(std::int64_t n, std::int64_t /*column*/) {
        const bool is_bad = samples.fault_of(n).code != FaultCode::none;
        return LossTerms{1, read[n].loss, read[n].correct, is_bad ? count - n : 0};
      },
      [=] __device__(std::int64_t /*column*/, const LossTerms& terms) {
        terms.write(to, false);
        if (terms.from_end == 0) return;
        Fault found = samples.fault_of(count - terms.from_end);
        found.node = node;
        report(fault, found);
      },
      memory.partials, call.queue);
}

/// Softmax − the probability of each class at each step among the paths that yield the targets.
template <typename E>
struct CtcGradient {
  CtcCall all;
  CtcMemory memory;
  const void* logits;
  void* gradient;
  const double* factor;

  /// The sum over the states of a class, in their order.
  __device__ double occupancy(const ctc::Transcript& sample, const double* states, std::int64_t c) const {
    double sum = 0;
    const std::int64_t first = c == sample.blank ? 0 : 1;
    for (std::int64_t s = first; s < sample.states; s += 2)
      if (sample.label(s) == c) sum += states[s];
    return sum;
  }

  __device__ void operator()(std::int64_t position, bool exists, const PositionTeam& team) const {
    if (!exists) return;
    const Division at = divide(position, all.view.width);
    const ctc::Transcript sample = all.samples.at(at.quotient);
    const bool is_left_out = all.zero_infinity && memory.read[at.quotient].log_probability == ctc::impossible;
    const bool counts = sample.states > 0 && at.remainder < sample.steps && !is_left_out;
    const double* const states = memory.paths + position * all.states;
    for (std::int64_t c = team.lane; c < all.view.padded; c += team_size) {
      const std::int64_t i = position * all.view.padded + c;
      float value = 0;
      if (counts && c < all.view.channels) {
        const double likely = std::exp(static_cast<double>(load<E>(logits, i)) - memory.log_sums[position]);
        value = static_cast<float>(scaled(*factor, likely - occupancy(sample, states, c)));
      }
      store<E>(gradient, i, value);
    }
  }
};

template <typename E>
void follow_paths(const CtcCall& all, const CtcMemory& memory, const void* logits, bool occupy, Queue queue) {
  normalize<E>(all, logits, memory, queue);
  for_each_run<threads_per_block>(all.view.samples, FollowPaths<E>{all, memory, logits, occupy}, queue);
}

template <typename E>
Implementation ctc_loss(const Ctc& op, Formats in) {
  const CtcCall all(in[0], in[1].shape, op);
  return {.traits = loss_traits(in, CtcMemory::bytes(all)),
          .forward =
              [=](const Arguments& call) {
                const CtcCall mine = all.with(call);
                const CtcMemory memory(mine, call.workspace);
                follow_paths<E>(mine, memory, call.inputs[0], false, call.queue);
                sum_samples(mine, memory, call);
              },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] == nullptr) return;
                const CtcCall mine = all.with(call);
                const CtcMemory memory(mine, call.workspace);
                follow_paths<E>(mine, memory, call.inputs[0], true, call.queue);
                const CtcGradient<E> body{mine, memory, call.inputs[0], call.input_gradients[0], factor_of(call)};
                for_each_run<team_size>(mine.view.positions(), body, call.queue);
              },
          .normalizer = [=](const Arguments& call) { write_weight(call, static_cast<double>(all.view.samples)); }};
}

}  // namespace

Implementation make(const Ctc& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return ctc_loss<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
