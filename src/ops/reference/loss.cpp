// SPDX-License-Identifier: Apache-2.0
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"
#include "ops/softmax_cross_entropy.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class PlainLoss final : public Loss {
 public:
  explicit PlainLoss(const Shape& logits) : loss_(logits) { check_logits(logits); }

  Result evaluate(const void* logits, const std::int32_t* labels, void* gradient) override {
    return loss_.evaluate(static_cast<const T*>(logits), labels, static_cast<T*>(gradient));
  }

 private:
  SoftmaxCrossEntropy<T> loss_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Format& logits) {
  return make_for<Loss, PlainLoss>(logits, logits.shape);
}

}  // namespace lockstep::ops::reference
