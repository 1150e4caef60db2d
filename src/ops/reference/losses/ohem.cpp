// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/formulas/hard_positions.hpp"
#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// The order of losses, in which a NaN is larger than any number.
template <typename T>
bool is_harder(T a, T b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

/// Goes from tile to tile of neighboring positions, because the classes of a position are far apart in memory, and
/// computes the softmax of positions that matter only. Saved is the share of each position in the loss of its sample.
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
    for_each_tile([&](std::int64_t n, std::int64_t first, std::int64_t end) {
      const T* shares = static_cast<const T*>(call.saved) + n * positions_;
      std::int64_t count = 0;
      for (std::int64_t i = first; i < end; ++i)
        if (shares[i] != T{0}) tile_[static_cast<std::size_t>(count++)].position = i;
      const T* logits = logits_of(call, n);
      set_softmax(logits, count);
      T* gradient = static_cast<T*>(call.input_gradients[0]) + (logits - static_cast<const T*>(call.inputs[0]));
      for (std::int64_t c = 0; c < logits_.channels; ++c, logits += positions_, gradient += positions_) {
        std::fill(gradient + first, gradient + end, T{0});
        for_each_of_tile(count, [&](const Softmax& of) {
          const T target = labels_of(call, n)[of.position] == c ? T{1} : T{0};
          const T probability = std::exp(logits[of.position] - of.largest) / of.sum;
          gradient[of.position] = scaled(factor * shares[of.position], probability - target);
        });
      }
    });
  }

 private:
  static constexpr std::int64_t tile_size = 128;
  static constexpr T no_loss = -1;  // of a label that does not count; losses are not negative

  /// A position of a sample, its largest logit, and Σ exp(logit − largest).
  struct Softmax {
    std::int64_t position;
    T largest;
    T sum;
  };

  /// Returns a multiple of 8 bytes.
  static Bytes saved_bytes(std::int64_t labels) {
    return {(labels * static_cast<std::int64_t>(sizeof(T)) + 7) / 8 * 8};
  }

  [[nodiscard]] const T* logits_of(const Arguments& call, std::int64_t n) const {
    return static_cast<const T*>(call.inputs[0]) + n * logits_.channels * positions_;
  }
  [[nodiscard]] const std::int32_t* labels_of(const Arguments& call, std::int64_t n) const {
    return static_cast<const std::int32_t*>(call.inputs[1]) + n * positions_;
  }

  /// Calls `f(sample, first position, end)`.
  template <typename F>
  void for_each_tile(const F& f) const {
    for (std::int64_t n = 0; n < logits_.batch; ++n)
      for (std::int64_t first = 0; first < positions_; first += tile_size)
        f(n, first, std::min(first + tile_size, positions_));
  }
  template <typename F>
  void for_each_of_tile(std::int64_t count, const F& f) {
    for (std::int64_t i = 0; i < count; ++i) f(tile_[static_cast<std::size_t>(i)]);
  }

  /// Computes the softmax of the first positions of the tile.
  void set_softmax(const T* logits, std::int64_t count) {
    for_each_of_tile(count, [&](Softmax& of) {
      of.largest = logits[of.position];
      of.sum = 0;
    });
    for (std::int64_t c = 1; c < logits_.channels; ++c)
      for_each_of_tile(count, [plane = logits + c * positions_](Softmax& of) {
        of.largest = plane[of.position] > of.largest ? plane[of.position] : of.largest;
      });
    for (std::int64_t c = 0; c < logits_.channels; ++c)
      for_each_of_tile(count, [plane = logits + c * positions_](Softmax& of) {
        of.sum += std::exp(plane[of.position] - of.largest);
      });
  }

  /// Sets the losses of a tile.
  void set_losses(const Arguments& call, std::int64_t n, std::int64_t first, std::int64_t end, T* losses) {
    const std::int32_t* labels = labels_of(call, n);
    std::int64_t count = 0;
    for (std::int64_t i = first; i < end; ++i) {
      losses[i] = no_loss;
      if (counts(labels[i], n, call)) tile_[static_cast<std::size_t>(count++)].position = i;
    }
    const T* logits = logits_of(call, n);
    set_softmax(logits, count);
    for_each_of_tile(count, [&](const Softmax& of) {
      const T logit = logits[labels[of.position] * positions_ + of.position];
      losses[of.position] = std::log(of.sum) - (logit - of.largest);
    });
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
      for (std::int64_t first = 0; first < positions_; first += tile_size)
        set_losses(call, n, first, std::min(first + tile_size, positions_), losses);
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
  std::array<Softmax, tile_size> tile_;
};

}  // namespace

KernelPtr make(const OhemCrossEntropy& loss, Formats in) { return make_for<OhemKernel>(in, loss); }

}  // namespace lockstep::ops::reference
