// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/formulas/hard_positions.hpp"
#include "ops/reference/losses/losses.hpp"
#include "ops/reference/losses/softmax_tile.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// The order of losses, in which a NaN is larger than any number.
template <typename T>
bool is_harder(T a, T b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

/// Leaves out tiles of positions none of which matters. Saved is the share of each position in the loss of its sample.
/// Exponentials are summed in T, losses in double.
template <typename T>
class OhemKernel final : public Kernel {
 public:
  OhemKernel(Formats in, const OhemCrossEntropy& loss)
      : Kernel(loss_traits(in, saved_bytes(in[1].shape.count()))),
        ignored_(loss.ignore_index),
        logits_(in[0].shape),
        positions_(in[0].shape.height * in[0].shape.width),
        hard_(loss, positions_),
        losses_(static_cast<std::size_t>(positions_)),
        sorted_(losses_.size()) {}

  void normalizer(const Arguments& call) override {
    double& weight = static_cast<LossSums*>(call.output)->weight;
    weight = 0;
    for (std::int64_t n = 0; n < logits_.batch; ++n) {
      const std::int32_t* labels = labels_of(call, n);
      weight += std::any_of(labels, labels + positions_, [&](auto label) { return label != ignored_; }) ? 1 : 0;
    }
  }

  void forward(const Arguments& call) override { sum_up(call, static_cast<T*>(call.saved)); }
  void infer(const Arguments& call) override { sum_up(call, nullptr); }

  /// Computes (softmax − target) times the gradient of the loss and the share of the position.
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const auto factor = static_cast<T>(factor_of(call));
    Tile::for_each(logits_, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
      const T* shares = static_cast<const T*>(call.saved) + n * positions_ + first;
      const T* logits = logits_of(call, n) + first;
      T* gradients = static_cast<T*>(call.input_gradients[0]) + (logits - static_cast<const T*>(call.inputs[0]));
      if (std::all_of(shares, shares + count, [](T share) { return share == T{0}; })) {
        for (std::int64_t c = 0; c < logits_.channels; ++c) std::fill_n(gradients + c * positions_, count, T{0});
        return;
      }
      tile_.compute(logits, logits_, count);
      for (std::int64_t i = 0; i < count; ++i) tile_.set_target(i, factor * shares[i], 1, 1);
      tile_.write_gradients(
          labels_of(call, n) + first, [](std::int64_t /*c*/) { return T{0}; }, gradients);
    });
  }

 private:
  using Tile = SoftmaxTile<T>;
  static constexpr T no_loss = -1;  // of a label that does not count; losses are not negative

  /// Returns a multiple of 8 bytes.
  static Bytes saved_bytes(std::int64_t labels) {
    return {(labels * static_cast<std::int64_t>(sizeof(T)) + 7) / 8 * 8};
  }

  [[nodiscard]] Shape one_sample() const { return {1, logits_.channels, logits_.height, logits_.width}; }
  [[nodiscard]] const T* logits_of(const Arguments& call, std::int64_t n) const {
    return static_cast<const T*>(call.inputs[0]) + n * logits_.channels * positions_;
  }
  [[nodiscard]] const std::int32_t* labels_of(const Arguments& call, std::int64_t n) const {
    return static_cast<const std::int32_t*>(call.inputs[1]) + n * positions_;
  }

  /// Sets the losses of a tile.
  void set_losses(const Arguments& call, std::int64_t n, std::int64_t first, std::int64_t count, T* losses) {
    const std::int32_t* labels = labels_of(call, n) + first;
    for (std::int64_t i = 0; i < count; ++i) losses[i] = counts(labels[i], n, call) ? T{0} : no_loss;
    if (std::all_of(losses, losses + count, [](T loss) { return loss == no_loss; })) return;
    tile_.compute(logits_of(call, n) + first, logits_, count);
    for (std::int64_t i = 0; i < count; ++i)
      if (losses[i] != no_loss) losses[i] = std::log(tile_.sum(i)) - (tile_.logit(i, labels[i]) - tile_.largest(i));
  }

  /// Returns whether the label counts; one that is no class is reported.
  bool counts(std::int32_t label, std::int64_t n, const Arguments& call) const {
    if (label == ignored_) return false;
    if (label >= 0 && label < logits_.channels) return true;
    call.report(FaultCode::label, n, label, logits_.channels);
    return false;
  }

  /// Returns the least loss that is kept.
  T least_kept(const T* losses) {
    std::int64_t hard = 0;
    auto end = sorted_.begin();
    for (std::int64_t i = 0; i < positions_; ++i) {
      if (losses[i] == no_loss) continue;
      hard += losses[i] < hard_.bound ? 0 : 1;
      *end++ = losses[i];
    }
    const std::int64_t wanted = std::min(hard_.least, static_cast<std::int64_t>(end - sorted_.begin()));
    if (hard >= wanted) return hard_.bound;
    const auto least = sorted_.begin() + (wanted - 1);
    std::nth_element(sorted_.begin(), least, end, is_harder<T>);
    return *least;
  }

  /// @param shares  null, or those of all samples, which become what backward needs
  void sum_up(const Arguments& call, T* shares) {
    LossSums loss_sums;
    for (std::int64_t n = 0; n < logits_.batch; ++n) {
      T* losses = shares == nullptr ? losses_.data() : shares + n * positions_;
      Tile::for_each(one_sample(), [&](std::int64_t /*n*/, std::int64_t first, std::int64_t count) {
        set_losses(call, n, first, count, losses + first);
      });
      const T least = least_kept(losses);
      const auto is_kept = [&](T loss) { return loss != no_loss && !(loss < least); };
      const std::int64_t kept = std::count_if(losses, losses + positions_, is_kept);
      const double sum =
          sum_of(positions_, [&](std::int64_t i) { return is_kept(losses[i]) ? static_cast<double>(losses[i]) : 0; });
      const bool has_label = std::any_of(losses, losses + positions_, [](T loss) { return loss != no_loss; });
      loss_sums.weight += has_label ? 1 : 0;
      if (kept > 0) loss_sums.loss += sum / static_cast<double>(kept);
      const T share = static_cast<T>(1 / static_cast<double>(std::max<std::int64_t>(kept, 1)));
      for (std::int64_t i = 0; i < positions_; ++i) losses[i] = is_kept(losses[i]) ? share : T{0};
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  std::int32_t ignored_;
  Shape logits_;
  std::int64_t positions_;
  HardPositions<T> hard_;
  std::vector<T> losses_;  // of a sample, in evaluations
  std::vector<T> sorted_;  // those of labels that count
  Tile tile_;
};

}  // namespace

KernelPtr make(const OhemCrossEntropy& loss, Formats in) { return make_for<OhemKernel>(in, loss); }

}  // namespace lockstep::ops::reference
