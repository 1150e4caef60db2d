// SPDX-License-Identifier: Apache-2.0
#include "ops/formulas/anchors.hpp"

#include <algorithm>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Boxes are computed in double, cross-entropies in T, and sums in double. Gradients are added to those of the other
/// parts of the loss, so that only what matches, or the objectness, is written.
template <typename T>
class AnchorLossKernel final : public Kernel {
 public:
  AnchorLossKernel(Formats in, const AnchorLoss& loss)
      : Kernel(traits_of(in)),
        part_(loss.part),
        map_(in[0].shape, loss.anchors, loss.stride),
        plane_(map_.height * map_.width),
        boxes_(in[1].shape.width),
        entropy_(BinaryCrossEntropy{}),
        positive_(static_cast<T>(1 - loss.label_smoothing / 2)),
        negative_(static_cast<T>(loss.label_smoothing / 2)),
        targets_(part_ == AnchorLoss::Part::objectness ? static_cast<std::size_t>(map_.anchors * plane_) : 0) {}

  void normalizer(const Arguments& call) override {
    std::int64_t matches = 0;
    if (call.inputs[1] == nullptr && map_.samples > 0) {
      throw Error(
          ErrorCode::invalid_argument,
          "the boxes of a loss cannot come from the network, because its normalizer is computed first: give them "
          "as an input");
    }
    for (std::int64_t n = 0; n < map_.samples; ++n)
      each_target(call, n, [&](const AnchorTarget& target) { matches += target.matches(map_); });
    static_cast<LossSums*>(call.output)->weight = static_cast<double>(weight_of(matches));
  }

  void forward(const Arguments& call) override {
    LossSums sums;
    std::int64_t matches = 0;
    for (std::int64_t n = 0; n < map_.samples; ++n) {
      if (part_ == AnchorLoss::Part::objectness) {
        set_targets(call, n);
        add_objectness(sample(call, n), sums);
      } else {
        each_match(call, n, [&](const Match& match) {
          ++matches;
          part_ == AnchorLoss::Part::box ? add_box(sample(call, n), match, sums)
                                         : add_classes(sample(call, n), match, sums);
        });
      }
    }
    sums.weight = static_cast<double>(weight_of(matches));
    *static_cast<LossSums*>(call.output) = sums;
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const double factor = factor_of(call);
    if (factor == 0) return;  // nothing is to be added, whatever the values are
    for (std::int64_t n = 0; n < map_.samples; ++n) {
      const T* x = sample(call, n);
      T* gradient = static_cast<T*>(call.input_gradients[0]) + n * sample_elements();
      switch (part_) {
        case AnchorLoss::Part::box:
          each_match(call, n, [&](const Match& match) { add_box_gradient(x, match, factor, gradient); });
          break;
        case AnchorLoss::Part::classes:
          each_match(call, n,
                     [&](const Match& match) { add_class_gradient(x, match, static_cast<T>(factor), gradient); });
          break;
        case AnchorLoss::Part::objectness:
          set_targets(call, n);
          add_objectness_gradient(x, static_cast<T>(factor), gradient);
          break;
      }
    }
  }

 private:
  /// A prediction that a box matches.
  struct Match {
    const AnchorTarget& target;
    std::int64_t anchor;
    std::int64_t row;
    std::int64_t column;
  };

  static Traits traits_of(Formats in) {
    Traits traits = loss_traits(in);
    traits.input_gradients = Writes::accumulates;
    return traits;
  }
  [[nodiscard]] std::int64_t sample_elements() const { return map_.anchors * map_.numbers * plane_; }
  [[nodiscard]] const T* sample(const Arguments& call, std::int64_t n) const {
    return static_cast<const T*>(call.inputs[0]) + n * sample_elements();
  }
  [[nodiscard]] std::int64_t weight_of(std::int64_t matches) const {
    if (part_ == AnchorLoss::Part::objectness) return map_.cells();
    if (part_ == AnchorLoss::Part::box) return matches;
    return map_.classes() > 1 ? matches * map_.classes() : 0;
  }
  /// The place in a sample of number `k` of a prediction.
  [[nodiscard]] std::int64_t place(const Match& at, std::int64_t k) const {
    return (at.anchor * map_.numbers + k) * plane_ + at.row * map_.width + at.column;
  }

  /// Calls `f(target)` for each box of a sample, and reports those of a class that does not exist.
  template <typename F>
  void each_target(const Arguments& call, std::int64_t n, const F& f) const {
    const T* boxes = static_cast<const T*>(call.inputs[1]) + n * numbers_of_box * boxes_;
    for (std::int64_t m = 0; m < boxes_; ++m) {
      double numbers[numbers_of_box];
      for (std::int64_t k = 0; k < numbers_of_box; ++k) numbers[k] = static_cast<double>(boxes[k * boxes_ + m]);
      const AnchorTarget target(numbers, map_);
      if (target.label >= map_.classes()) call.report(FaultCode::label, n, target.label, map_.classes());
      f(target);
    }
  }

  /// Calls `f(match)` for each match of a sample, in the order of the boxes.
  template <typename F>
  void each_match(const Arguments& call, std::int64_t n, const F& f) const {
    each_target(call, n, [&](const AnchorTarget& target) {
      if (!target.exists(map_)) return;
      for (std::int64_t a = 0; a < map_.anchors; ++a) {
        if (!target.fits(map_.sizes[a])) continue;
        f(Match{target, a, target.row.own, target.column.own});
        if (target.column.neighbor >= 0) f(Match{target, a, target.row.own, target.column.neighbor});
        if (target.row.neighbor >= 0) f(Match{target, a, target.row.neighbor, target.column.own});
      }
    });
  }

  [[nodiscard]] AnchorPrediction prediction(const T* x, const Match& at) const {
    double logits[4];
    for (std::int64_t k = 0; k < 4; ++k) logits[k] = static_cast<double>(x[place(at, k)]);
    return {logits, at.row, at.column, map_.sizes[at.anchor]};
  }

  void add_box(const T* x, const Match& match, LossSums& sums) const {
    const CompleteIou iou(prediction(x, match).box, match.target.box);
    sums.loss += 1 - iou.value();
    sums.correct += iou.iou() > 0.5 ? 1 : 0;
  }

  void add_box_gradient(const T* x, const Match& match, double factor, T* gradient) const {
    const AnchorPrediction predicted = prediction(x, match);
    double by_box[4];
    CompleteIou(predicted.box, match.target.box).gradient(predicted.box, match.target.box, by_box);
    for (int k = 0; k < 4; ++k) gradient[place(match, k)] += static_cast<T>(factor * predicted.by_logit(k, by_box[k]));
  }

  [[nodiscard]] T target_of(const Match& match, std::int64_t c) const {
    return c == match.target.label ? positive_ : negative_;
  }

  void add_classes(const T* x, const Match& match, LossSums& sums) const {
    if (map_.classes() == 1) return;
    const Scores<T> logits{x + place(match, numbers_of_box), map_.classes(), plane_};
    for (std::int64_t c = 0; c < logits.classes; ++c)
      sums.loss += static_cast<double>(entropy_.loss(logits[c], target_of(match, c)));
    if (logits.largest() == match.target.label) sums.correct += static_cast<double>(logits.classes);
  }

  void add_class_gradient(const T* x, const Match& match, T factor, T* gradient) const {
    if (map_.classes() == 1) return;
    for (std::int64_t c = 0; c < map_.classes(); ++c) {
      const std::int64_t at = place(match, numbers_of_box + c);
      gradient[at] += factor * entropy_.by_prediction(x[at], target_of(match, c));
    }
  }

  /// Sets the objectness of each anchor and cell of a sample.
  void set_targets(const Arguments& call, std::int64_t n) {
    std::fill(targets_.begin(), targets_.end(), T{0});
    const T* x = sample(call, n);
    each_match(call, n, [&](const Match& match) {
      const double overlap = CompleteIou(prediction(x, match).box, match.target.box).value();
      T& target = targets_[static_cast<std::size_t>(match.anchor * plane_ + match.row * map_.width + match.column)];
      target = std::max(target, static_cast<T>(overlap));
    });
  }

  void add_objectness(const T* x, LossSums& sums) const {
    for (std::int64_t a = 0; a < map_.anchors; ++a) {
      const T* logits = x + (a * map_.numbers + 4) * plane_;
      const T* targets = targets_.data() + a * plane_;
      sums.loss += sum_of(plane_, [=, this](std::int64_t i) { return entropy_.loss(logits[i], targets[i]); });
      sums.correct +=
          sum_of(plane_, [=, this](std::int64_t i) { return static_cast<T>(entropy_.right(logits[i], targets[i])); });
    }
  }

  void add_objectness_gradient(const T* x, T factor, T* gradient) const {
    for (std::int64_t a = 0; a < map_.anchors; ++a) {
      const T* logits = x + (a * map_.numbers + 4) * plane_;
      T* of_logits = gradient + (a * map_.numbers + 4) * plane_;
      const T* targets = targets_.data() + a * plane_;
      for (std::int64_t i = 0; i < plane_; ++i) of_logits[i] += factor * entropy_.by_prediction(logits[i], targets[i]);
    }
  }

  AnchorLoss::Part part_;
  AnchorMap map_;
  std::int64_t plane_;  ///< cells of a sample
  std::int64_t boxes_;  ///< of a sample
  SeriesBinaryCrossEntropyAt<T> entropy_;
  T positive_;
  T negative_;
  std::vector<T> targets_;  ///< objectness by anchor and cell of a sample
};

/// The coordinates are computed in T, plane by plane.
template <typename T>
class AnchorDecodeKernel final : public Kernel {
 public:
  AnchorDecodeKernel(const Format& in, const AnchorDecode& decode)
      : Kernel({.inputs = {in}, .output = output_of(decode, in)}),
        map_(in.shape, decode.anchors, decode.stride),
        plane_(map_.height * map_.width) {}

 private:
  void forward(const Arguments& call) override {
    const T* x = static_cast<const T*>(call.inputs[0]);
    for (std::int64_t n = 0; n < map_.samples; ++n) {
      T* y = static_cast<T*>(call.output) + n * map_.numbers * map_.anchors * plane_;
      for (std::int64_t a = 0; a < map_.anchors; ++a)
        for (std::int64_t k = 0; k < map_.numbers; ++k, x += plane_)
          decode(x, static_cast<int>(k), a, y + (k * map_.anchors + a) * plane_);
    }
  }
  void backward(const Arguments& /*call*/) override {
    throw Error(ErrorCode::invalid_argument, "the decoding of anchors has no backward pass");
  }

  void decode(const T* x, int k, std::int64_t anchor, T* y) const {
    for (std::int64_t i = 0; i < plane_; ++i) y[i] = T{1} / (T{1} + std::exp(-x[i]));
    if (k >= 4) return;
    const auto stride = static_cast<T>(map_.stride);
    const auto size = static_cast<T>(map_.sizes[anchor][k % 2]);
    for (std::int64_t row = 0; row < map_.height; ++row) {
      for (std::int64_t column = 0; column < map_.width; ++column, ++y)
        *y = decoded(k, *y, static_cast<T>(k == 0 ? column : row), size) * stride;
    }
  }

  AnchorMap map_;
  std::int64_t plane_;
};

}  // namespace

KernelPtr make(const AnchorLoss& loss, Formats in) { return make_for<AnchorLossKernel>(in, loss); }

KernelPtr make(const AnchorDecode& decode, Formats in) { return make_for<AnchorDecodeKernel>(in, decode); }

}  // namespace lockstep::ops::reference
