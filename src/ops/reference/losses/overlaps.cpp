// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "ops/formulas/boxes.hpp"
#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Computes each box in double.
template <typename T>
class GiouKernel final : public Kernel {
 public:
  GiouKernel(Formats in, const Giou& loss)
      : Kernel(loss_traits(in)),
        epsilon_(loss.epsilon),
        boxes_(in[0].shape.batch * in[0].shape.height * in[0].shape.width),
        positions_(in[0].shape.height * in[0].shape.width) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = total_weight<T>(call, boxes_);
  }

  void forward(const Arguments& call) override {
    LossSums loss_sums{.weight = total_weight<T>(call, boxes_)};
    visit(call, [&](std::int64_t /*index*/, double weight, const Box& a, const Box& b) {
      if (weight != 0) loss_sums.loss += weight * Areas(a, b, epsilon_).loss();
    });
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  void backward(const Arguments& call) override {
    const double factor = factor_of(call);
    T* of_weights = call.inputs.size() < 3 ? nullptr : static_cast<T*>(call.input_gradients[2]);
    visit(call, [&](std::int64_t index, double weight, const Box& a, const Box& b) {
      const Areas areas(a, b, epsilon_);
      set(static_cast<T*>(call.input_gradients[0]), index, factor * weight, areas, a, b);
      set(static_cast<T*>(call.input_gradients[1]), index, factor * weight, areas, b, a);
      if (of_weights != nullptr) of_weights[index] = static_cast<T>(scaled(factor, areas.loss()));
    });
  }

 private:
  [[nodiscard]] std::int64_t first_of(std::int64_t index) const {
    return index / positions_ * 4 * positions_ + index % positions_;
  }
  [[nodiscard]] Box box(const T* boxes, std::int64_t index) const {
    const T* first = boxes + first_of(index);
    Box box;
    for (int k = 0; k < 4; ++k) box.at[k] = static_cast<double>(first[k * positions_]);
    return box;
  }

  void set(T* gradients, std::int64_t index, double scale, const Areas& areas, const Box& a, const Box& b) const {
    if (gradients == nullptr) return;
    T* gradient = gradients + first_of(index);
    for (const double element : gradient_of(areas, a, b).at) {
      *gradient = static_cast<T>(scaled(scale, element));
      gradient += positions_;
    }
  }

  /// Calls `f(index, weight, prediction, target)` for every box.
  template <typename F>
  void visit(const Arguments& call, const F& f) const {
    const T* weights = weights_of<T>(call);
    for (std::int64_t i = 0; i < boxes_; ++i) {
      f(i, weights == nullptr ? 1 : static_cast<double>(weights[i]), box(static_cast<const T*>(call.inputs[0]), i),
        box(static_cast<const T*>(call.inputs[1]), i));
    }
  }

  double epsilon_;
  std::int64_t boxes_;
  std::int64_t positions_;
};

/// Saved are the dividend and the divisor of each plane, which is a channel of a sample.
template <typename T>
class DiceKernel final : public Kernel {
 public:
  DiceKernel(Formats in, const Dice& loss)
      : Kernel(loss_traits(in, {planes_of(in[0].shape) * static_cast<std::int64_t>(sizeof(Ratio))})),
        loss_(loss),
        channels_(in[0].shape.channels),
        planes_(planes_of(in[0].shape)),
        positions_(in[0].shape.height * in[0].shape.width) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = static_cast<double>(planes_);
  }
  void forward(const Arguments& call) override { sum_up(call, static_cast<Ratio*>(call.saved)); }
  void infer(const Arguments& call) override { sum_up(call, nullptr); }

  /// The loss subtracts n ÷ d, whose gradient is n' ÷ d − n·d' ÷ d².
  void backward(const Arguments& call) override {
    const auto factor = static_cast<T>(factor_of(call));
    T* of_logits = static_cast<T*>(call.input_gradients[0]);
    T* of_targets = static_cast<T*>(call.input_gradients[1]);
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      const Ratio& ratio = static_cast<const Ratio*>(call.saved)[plane];
      const auto twice = static_cast<T>(2 / ratio.divisor);
      const auto once = static_cast<T>(ratio.dividend / ratio.divisor / ratio.divisor);
      for (std::int64_t i = plane * positions_; i < (plane + 1) * positions_; ++i) {
        const T p = sigmoid(static_cast<const T*>(call.inputs[0])[i]);
        const T t = target(call, plane, i);
        const bool is_left_out = t == left_out;
        if (of_logits != nullptr)
          of_logits[i] = is_left_out ? T{0} : scaled(factor, (once - twice * t) * p * (T{1} - p));
        if (of_targets != nullptr) of_targets[i] = scaled(factor, once - twice * p);
      }
    }
  }

 private:
  struct Ratio {
    double dividend;
    double divisor;
  };

  static constexpr T left_out = std::numeric_limits<T>::lowest();  // the target of a label that does not count

  static std::int64_t planes_of(const Shape& shape) { return shape.batch * shape.channels; }
  static T sigmoid(T x) { return T{1} / (T{1} + std::exp(-x)); }

  [[nodiscard]] bool is_class(std::int32_t label) const { return label >= 0 && label < channels_; }

  /// Returns the target of element `i` of the logits.
  [[nodiscard]] T target(const Arguments& call, std::int64_t plane, std::int64_t i) const {
    if (!loss_.by_label) return static_cast<const T*>(call.inputs[1])[i];
    const std::int64_t position = plane / channels_ * positions_ + i - plane * positions_;
    const std::int32_t label = static_cast<const std::int32_t*>(call.inputs[1])[position];
    if (label == loss_.ignore_index || !is_class(label)) return left_out;
    return label == plane % channels_ ? T{1} : T{0};
  }

  /// Reports the first label that is no class.
  void check_labels(const Arguments& call) const {
    const auto* labels = static_cast<const std::int32_t*>(call.inputs[1]);
    const auto* end = labels + planes_ / channels_ * positions_;
    const auto* bad =
        std::find_if(labels, end, [&](std::int32_t label) { return label != loss_.ignore_index && !is_class(label); });
    if (bad != end) call.report(FaultCode::label, (bad - labels) / positions_, *bad, channels_);
  }

  void sum_up(const Arguments& call, Ratio* saved) const {
    const auto* logits = static_cast<const T*>(call.inputs[0]);
    if (loss_.by_label) check_labels(call);
    LossSums loss_sums{.weight = static_cast<double>(planes_)};
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      double common = 0;
      double total = 0;
      for (std::int64_t i = plane * positions_; i < (plane + 1) * positions_; ++i) {
        const T t = target(call, plane, i);
        if (t == left_out) continue;
        const auto p = static_cast<double>(sigmoid(logits[i]));
        common += p * static_cast<double>(t);
        total += p + static_cast<double>(t);
      }
      const Ratio ratio{2 * common + loss_.epsilon, total + loss_.epsilon};
      loss_sums.loss += 1 - ratio.dividend / ratio.divisor;
      if (saved != nullptr) saved[plane] = ratio;
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  Dice loss_;
  std::int64_t channels_;
  std::int64_t planes_;
  std::int64_t positions_;
};

}  // namespace

KernelPtr make(const Giou& loss, Formats in) { return make_for<GiouKernel>(in, loss); }

KernelPtr make(const Dice& loss, Formats in) { return make_for<DiceKernel>(in, loss); }

}  // namespace lockstep::ops::reference
