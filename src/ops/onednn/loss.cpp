// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/operators.hpp"
#include "ops/onednn/reordered.hpp"
#include "ops/softmax_cross_entropy.hpp"

namespace lockstep::ops::onednn {

namespace {

/// The loop that all implementations share, around it the way to plain logits and back where they are blocked.
class PlainLoss final : public Loss {
 public:
  PlainLoss(const ContextPtr& context, const Format& logits) : loss_(logits.shape) {
    if (logits.native == nullptr) return;
    // Seen from the loop, the plain layout is the inner one.
    plain_ = Reordered(context, to_desc(logits), describe(dims_of(logits.shape), Tag::nchw));
  }

  Result evaluate(const void* logits, const std::int32_t* labels, void* gradient) override {
    const auto* plain = static_cast<const float*>(plain_.load(logits));
    if (gradient == nullptr) return loss_.evaluate(plain, labels, nullptr);
    // Blocked logits and gradient share the workspace: an element is read for the last time before it is written.
    const Result result = loss_.evaluate(plain, labels, static_cast<float*>(plain_.target(gradient)));
    plain_.store(gradient);
    return result;
  }

 private:
  SoftmaxCrossEntropy<float> loss_;
  Reordered plain_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const ContextPtr& context, const Format& logits) {
  return std::make_unique<PlainLoss>(context, logits);
}

}  // namespace lockstep::ops::onednn
