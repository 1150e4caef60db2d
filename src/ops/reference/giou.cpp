// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>

#include "ops/reference/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {

namespace {

using Box = std::array<double, 4>;  // x1, y1, x2, y2: elements k and k + 2 are the ends along axis k

/// The areas that the loss of two boxes consists of.
struct Areas {
  std::array<double, 2> inner{};  ///< extents of the intersection; negative if there is a gap
  std::array<double, 2> outer{};  ///< extents of the smallest box that contains both
  bool overlapping;
  double common;
  double united;
  double hull;
  double united_divisor;
  double hull_divisor;

  Areas(const Box& a, const Box& b, double epsilon) {
    for (std::size_t k = 0; k < 2; ++k) {
      inner[k] = std::min(a[k + 2], b[k + 2]) - std::max(a[k], b[k]);
      outer[k] = std::max(a[k + 2], b[k + 2]) - std::min(a[k], b[k]);
    }
    overlapping = inner[0] > 0 && inner[1] > 0;
    common = overlapping ? inner[0] * inner[1] : 0;
    united = area(a) + area(b) - common;
    hull = outer[0] * outer[1];
    united_divisor = std::max(united, 0.0) + epsilon;
    hull_divisor = std::max(hull, 0.0) + epsilon;
  }

  static double area(const Box& box) { return (box[2] - box[0]) * (box[3] - box[1]); }
  [[nodiscard]] double loss() const { return 1 - common / united_divisor + (hull - united) / hull_divisor; }
};

/// Returns the derivative of max(a, b) by a; it is 0.5 for equal values.
double is_larger(double a, double b) { return a == b ? 0.5 : static_cast<double>(a > b); }

/// Returns the gradient of the loss with respect to the coordinates of `a`.
Box gradient_of(const Areas& areas, const Box& a, const Box& b) {
  const double by_united =
      (areas.united > 0 ? areas.common / areas.united_divisor / areas.united_divisor : 0) - 1 / areas.hull_divisor;
  // The intersection is in both boxes, but counts only once in the union.
  const double by_common = -1 / areas.united_divisor - by_united;
  const double by_hull =
      (areas.hull > 0 ? 1 - (areas.hull - areas.united) / areas.hull_divisor : 1.0) / areas.hull_divisor;
  Box gradient{};
  for (std::size_t k = 0; k < 2; ++k) {
    const std::size_t other = 1 - k;
    const double common = by_common * (areas.overlapping ? areas.inner[other] : 0);
    const double united = by_united * (a[other + 2] - a[other]);
    const double hull = by_hull * areas.outer[other];
    gradient[k] = -(common * is_larger(a[k], b[k]) + united + hull * is_larger(b[k], a[k]));
    gradient[k + 2] = common * is_larger(b[k + 2], a[k + 2]) + united + hull * is_larger(a[k + 2], b[k + 2]);
  }
  return gradient;
}

/// Computes each box in double.
template <typename T>
class GiouKernel final : public Kernel {
 public:
  GiouKernel(std::span<const Format> in, const Giou& loss)
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
    return {static_cast<double>(first[0]), static_cast<double>(first[positions_]),
            static_cast<double>(first[2 * positions_]), static_cast<double>(first[3 * positions_])};
  }

  void set(T* gradients, std::int64_t index, double scale, const Areas& areas, const Box& a, const Box& b) const {
    if (gradients == nullptr) return;
    T* gradient = gradients + first_of(index);
    for (const double element : gradient_of(areas, a, b)) {
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

}  // namespace

std::unique_ptr<Kernel> make(const Giou& loss, std::span<const Format> in) {
  return make_loss_for<GiouKernel>(in, loss);
}

}  // namespace lockstep::ops::reference
