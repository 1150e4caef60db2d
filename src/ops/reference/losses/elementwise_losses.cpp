// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"
namespace lockstep::ops::reference {

/// A loss of predictions x, targets t of the same shape, and optional weights. `At<T>` defines it for one element:
/// `loss(x, t)`, its derivatives `by_prediction(x, t)` and `by_target(x, t)`, and `right(x, t)` if `judges`.
template <typename T, template <typename> typename At>
class ElementwiseLoss final : public Kernel {
 public:
  template <typename Kind>
  ElementwiseLoss(Formats in, const Kind& loss) : Kernel(loss_traits(in)), at_(loss), count_(in[0].shape.count()) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = total_weight<T>(call, count_);
  }

  void forward(const Arguments& call) override {
    LossSums loss_sums;
    loss_sums.weight = total_weight<T>(call, count_);
    loss_sums.loss = sum(call, [this](T x, T t) { return at_.loss(x, t); });
    if constexpr (At<T>::judges) {
      loss_sums.correct = sum(call, [this](T x, T t) { return static_cast<T>(at_.right(x, t)); });
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  void backward(const Arguments& call) override {
    const auto factor = static_cast<T>(factor_of(call));
    const T* weights = weights_of<T>(call);
    each(call, 0, weights, factor, [this](T x, T t) { return at_.by_prediction(x, t); });
    each(call, 1, weights, factor, [this](T x, T t) { return at_.by_target(x, t); });
    if (weights != nullptr) each(call, 2, nullptr, factor, [this](T x, T t) { return at_.loss(x, t); });
  }

 private:
  /// Returns Σ weight · f(x, t).
  template <typename F>
  double sum(const Arguments& call, const F& f) const {
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* t = static_cast<const T*>(call.inputs[1]);
    const T* weights = weights_of<T>(call);
    if (weights == nullptr) return sum_of(count_, [=](std::int64_t i) { return f(x[i], t[i]); });
    return sum_of(count_, [=](std::int64_t i) { return scaled(weights[i], f(x[i], t[i])); });
  }

  /// Writes an input's gradient: factor · weight · f(x, t).
  template <typename F>
  void each(const Arguments& call, std::size_t input, const T* weights, T factor, const F& f) const {
    T* gradient = static_cast<T*>(call.input_gradients[input]);
    if (gradient == nullptr) return;
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* t = static_cast<const T*>(call.inputs[1]);
    if (weights == nullptr) {
      for (std::int64_t i = 0; i < count_; ++i) gradient[i] = scaled(factor, f(x[i], t[i]));
    } else {
      for (std::int64_t i = 0; i < count_; ++i) gradient[i] = scaled(factor * weights[i], f(x[i], t[i]));
    }
  }

  At<T> at_;
  std::int64_t count_;
};

namespace {

template <typename T>
using SmoothL1Kernel = ElementwiseLoss<T, SmoothL1At>;

template <typename T>
using BinaryCrossEntropyKernel = ElementwiseLoss<T, SeriesBinaryCrossEntropyAt>;

}  // namespace

KernelPtr make(const SmoothL1& loss, Formats in) { return make_for<SmoothL1Kernel>(in, loss); }

KernelPtr make(const BinaryCrossEntropy& loss, Formats in) { return make_for<BinaryCrossEntropyKernel>(in, loss); }

}  // namespace lockstep::ops::reference
