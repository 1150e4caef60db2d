// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/device/classes.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/hard_positions.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr float no_loss = -1;  // of a label that does not count; losses are not negative

/// The bits of losses have their order, and a NaN is larger than any number.
__device__ std::uint32_t bits_of(float loss) { return kernels::cuda::bits_as<std::uint32_t>(loss); }

/// What is kept of a sample.
struct Selection {
  std::uint32_t least;    ///< the bits of the least loss that is kept, of which the upper ones are known first
  std::int64_t wanted;    ///< number of positions from which `least` follows; 0: it is known
  std::int64_t labels;    ///< number of labels that count
  std::int64_t from_end;  ///< as of `LossTerms`
  std::int64_t kept;
  double loss;  ///< mean over the positions that are kept

  [[nodiscard]] __device__ bool keeps(float loss_of_position) const {
    return loss_of_position != no_loss && bits_of(loss_of_position) >= least;
  }
};

/// Labels that count, losses of hard positions, and the first bad label.
struct LabelCounts {
  std::int64_t labels;
  std::int64_t hard;
  std::int64_t from_end;
  friend __device__ LabelCounts operator+(const LabelCounts& a, const LabelCounts& b) {
    return {a.labels + b.labels, a.hard + b.hard, a.from_end > b.from_end ? a.from_end : b.from_end};
  }
};

/// The losses that have at least each of three values.
struct Counts {
  std::int64_t at[3];
  friend __device__ Counts operator+(const Counts& a, const Counts& b) {
    return {{a.at[0] + b.at[0], a.at[1] + b.at[1], a.at[2] + b.at[2]}};
  }
};

/// The losses that are kept.
struct KeptLosses {
  double sum;
  std::int64_t count;
  friend __device__ KeptLosses operator+(const KeptLosses& a, const KeptLosses& b) {
    return {a.sum + b.sum, a.count + b.count};
  }
};

/// A call of the loss: labels and losses lie sample by sample.
struct HardLosses {
  TensorView view;
  std::int64_t positions;  ///< of a sample
  HardPositions<float> hard;
  std::int32_t ignored;

  HardLosses(const Format& logits, const OhemCrossEntropy& op)
      : view(view_of(logits)), positions(view.height * view.width), hard(op, positions), ignored(op.ignore_index) {}
  [[nodiscard]] std::int64_t count() const { return view.positions(); }
  [[nodiscard]] Labels labels(const Arguments& call) const {
    return {static_cast<const std::int32_t*>(call.inputs[1]), count(), view.channels, ignored};
  }
  /// The bytes of the losses, in units of 16.
  [[nodiscard]] Bytes losses() const { return {(count() * static_cast<std::int64_t>(sizeof(float)) + 15) / 16 * 16}; }
  /// The bytes of selections in the workspace, before partial sums and the losses of an evaluation.
  [[nodiscard]] std::int64_t selections() const {
    return (view.samples * static_cast<std::int64_t>(sizeof(Selection)) + 15) / 16 * 16;
  }
  /// The bytes of partial sums, of which those of LossTerms are the largest.
  [[nodiscard]] std::int64_t partials() const {
    static_assert(sizeof(LossTerms) >= std::max(sizeof(Counts), sizeof(LabelCounts)));
    const std::int64_t by_sample = RowParts(positions, view.samples).partials();
    const std::int64_t parts = std::max(by_sample, RowParts(view.samples, 1).partials());
    return parts * static_cast<std::int64_t>(sizeof(LossTerms));
  }
  [[nodiscard]] Bytes workspace() const { return {selections() + losses().value + partials()}; }
};

/// The memory of a call.
struct HardMemory {
  Selection* selections;
  float* losses;
  void* partials;

  HardMemory(const HardLosses& of, const Arguments& call) : selections(static_cast<Selection*>(call.workspace)) {
    char* const behind = static_cast<char*>(call.workspace) + of.selections();
    losses = reinterpret_cast<float*>(call.saved == nullptr ? behind : static_cast<char*>(call.saved));
    partials = behind + of.losses().value;
  }
};

template <typename E>
struct PositionLoss {
  const void* logits;
  Labels labels;
  std::int64_t padded;
  float* losses;

  __device__ void operator()(std::int64_t row, bool exists, const PositionTeam& team) const {
    const Scores<E> scores{logits, row * padded, labels.classes};
    const float largest = scores.largest(team).value;
    const float sum = scores.sum_of_exponentials(largest, team);
    if (!exists || team.lane != 0) return;
    const float loss = labels.counts(row) ? std::log(sum) - (scores[labels.data[row]] - largest) : no_loss;
    losses[row] = loss != loss ? std::numeric_limits<float>::quiet_NaN() : loss;
  }
};

/// Submits the counts from which it follows what is kept of each sample.
void count_labels(const HardLosses& all, const HardMemory& memory, const Labels& labels, Queue queue) {
  Selection* selections = memory.selections;
  const float* losses = memory.losses;
  const std::int64_t positions = all.positions;
  const float bound = all.hard.bound;
  const std::int64_t least = all.hard.least;
  sum_rows<LabelCounts>(
      positions, all.view.samples,
      [=] __device__(std::int64_t row, std::int64_t sample) {
        const std::int64_t i = sample * positions + row;
        const bool counts = losses[i] != no_loss;
        return LabelCounts{counts ? 1 : 0, counts && !(losses[i] < bound) ? 1 : 0, labels.bad_from_end(i)};
      },
      [=] __device__(std::int64_t sample, const LabelCounts& counts) {
        const std::int64_t wanted = least < counts.labels ? least : counts.labels;
        const bool is_enough = counts.hard >= wanted;
        selections[sample] = {
            is_enough ? bits_of(bound) : 0, is_enough ? 0 : wanted, counts.labels, counts.from_end, 0, 0};
      },
      memory.partials, queue);
}

/// Submits what finds the least loss that is kept of each sample, from the upper bits down, two at a time.
void select(const HardLosses& all, const HardMemory& memory, Queue queue) {
  Selection* selections = memory.selections;
  const float* losses = memory.losses;
  const std::int64_t positions = all.positions;
  for (int shift = 30; shift >= 0; shift -= 2) {
    sum_rows<Counts>(
        positions, all.view.samples,
        [=] __device__(std::int64_t row, std::int64_t sample) {
          const Selection& of = selections[sample];
          Counts counts{};
          if (of.wanted == 0) return counts;
          const float loss = losses[sample * positions + row];
          for (std::uint32_t k = 0; k < 3; ++k)
            counts.at[k] = loss != no_loss && bits_of(loss) >= (of.least | (k + 1) << shift) ? 1 : 0;
          return counts;
        },
        [=] __device__(std::int64_t sample, const Counts& counts) {
          Selection& of = selections[sample];
          std::uint32_t digit = 0;
          while (digit < 3 && counts.at[digit] >= of.wanted) ++digit;
          if (of.wanted > 0) of.least |= digit << shift;
        },
        memory.partials, queue);
  }
}

/// Submits the sums over the losses that are kept.
void sum_kept(const HardLosses& all, const HardMemory& memory, const Arguments& call) {
  Selection* selections = memory.selections;
  const float* losses = memory.losses;
  const std::int64_t positions = all.positions;
  sum_rows<KeptLosses>(
      positions, all.view.samples,
      [=] __device__(std::int64_t row, std::int64_t sample) {
        const float loss = losses[sample * positions + row];
        return selections[sample].keeps(loss) ? KeptLosses{static_cast<double>(loss), 1} : KeptLosses{0, 0};
      },
      [=] __device__(std::int64_t sample, const KeptLosses& kept) {
        selections[sample].kept = kept.count;
        selections[sample].loss = kept.count == 0 ? 0 : kept.sum / static_cast<double>(kept.count);
      },
      memory.partials, call.queue);
  sum_rows<LossTerms>(
      all.view.samples, 1,
      [=] __device__(std::int64_t sample, std::int64_t /*column*/) {
        const Selection& of = selections[sample];
        return LossTerms{of.labels > 0 ? 1.0 : 0.0, of.loss, 0, of.from_end};
      },
      FinishLabels{all.labels(call), positions, static_cast<LossSums*>(call.output), false, call.fault, call.node},
      memory.partials, call.queue);
}

/// Turns losses into the shares that positions have in the losses of their samples.
void set_shares(const HardLosses& all, const HardMemory& memory, Queue queue) {
  const Selection* selections = memory.selections;
  float* losses = memory.losses;
  const std::int64_t positions = all.positions;
  for_each(
      all.count(),
      [=] __device__(std::int64_t i) {
        const Selection& of = selections[i / positions];
        losses[i] = of.keeps(losses[i]) ? static_cast<float>(1 / static_cast<double>(of.kept)) : 0;
      },
      queue);
}

template <typename E>
void hard_losses(const HardLosses& all, const Arguments& call) {
  const HardMemory memory(all, call);
  const PositionLoss<E> losses{call.inputs[0], all.labels(call), all.view.padded, memory.losses};
  for_each_run<team_size>(all.count(), losses, call.queue);
  count_labels(all, memory, all.labels(call), call.queue);
  select(all, memory, call.queue);
  sum_kept(all, memory, call);
  if (call.saved != nullptr) set_shares(all, memory, call.queue);
}

/// (softmax − target) times the gradient of the loss and the share of the position.
template <typename E>
struct HardGradient {
  const void* logits;
  void* gradient;
  const double* factor;
  const float* shares;
  Labels labels;
  std::int64_t padded;

  __device__ void operator()(std::int64_t row, bool exists, const PositionTeam& team) const {
    const Scores<E> scores{logits, row * padded, labels.classes};
    const float shift = scores.largest(team).value;
    const float sum = scores.sum_of_exponentials(shift, team);
    if (!exists) return;
    const float scale = static_cast<float>(*factor) * shares[row];
    const std::int32_t label = labels.data[row];
    for (std::int64_t c = team.lane; c < padded; c += team_size) {
      const float target = c == label ? 1 : 0;
      const float value = c < labels.classes ? scaled(scale, std::exp(scores[c] - shift) / sum - target) : 0;
      store<E>(gradient, row * padded + c, value);
    }
  }
};

/// Submits the number of samples with a label that is not ignored.
void count_samples(const HardLosses& all, const Arguments& call) {
  const HardMemory memory(all, call);
  Selection* selections = memory.selections;
  const Labels labels = all.labels(call);
  const std::int64_t positions = all.positions;
  sum_rows<std::int64_t>(
      positions, all.view.samples,
      [=] __device__(std::int64_t i, std::int64_t sample) {
        return std::int64_t{labels.data[sample * positions + i] == labels.ignored ? 0 : 1};
      },
      [=] __device__(std::int64_t sample, std::int64_t count) { selections[sample].labels = count; }, memory.partials,
      call.queue);
  auto* to = static_cast<LossSums*>(call.output);
  sum_rows<double>(
      all.view.samples, 1,
      [=] __device__(std::int64_t sample, std::int64_t /*column*/) {
        return selections[sample].labels > 0 ? 1.0 : 0.0;
      },
      [=] __device__(std::int64_t /*column*/, double samples) { to->weight = samples; }, memory.partials, call.queue);
}

template <typename E>
Implementation ohem(const OhemCrossEntropy& op, Formats in) {
  const HardLosses all(in[0], op);
  return {.traits = loss_traits(in, all.workspace(), all.losses()),
          .forward = [=](const Arguments& call) { hard_losses<E>(all, call); },
          .backward =
              [=](const Arguments& call) {
                const HardGradient<E> body{call.inputs[0],   call.input_gradients[0],
                                           factor_of(call),  static_cast<const float*>(call.saved),
                                           all.labels(call), all.view.padded};
                if (body.gradient != nullptr) for_each_run<team_size>(all.count(), body, call.queue);
              },
          .normalizer = [=](const Arguments& call) { count_samples(all, call); }};
}

}  // namespace

Implementation make(const OhemCrossEntropy& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return ohem<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
