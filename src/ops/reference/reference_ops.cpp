// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reference.hpp"
#include "ops/limits.hpp"
#include "ops/reference/operators.hpp"
#include "ops/sgd.hpp"

namespace lockstep::ops {

namespace {

class ReferenceOps final : public Ops {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32 || dtype == DType::float64; }

  std::unique_ptr<Operator> convolution(const Format& in, const ConvolutionShape& shape) override {
    return reference::make_convolution(in, shape);
  }
  std::unique_ptr<Operator> batch_norm(const Format& in, const BatchNormShape& shape) override {
    return reference::make_batch_norm(in, shape);
  }
  std::unique_ptr<Operator> relu(const Format& in) override { return reference::make_relu(in); }
  std::unique_ptr<Operator> max_pool(const Format& in, const PoolShape& shape) override {
    return reference::make_max_pool(in, shape);
  }
  std::unique_ptr<Operator> average_pool(const Format& in, const PoolShape& shape) override {
    return reference::make_average_pool(in, shape);
  }
  std::unique_ptr<Operator> linear(const Format& in, std::int64_t out_channels, Activation activation) override {
    return reference::make_linear(in, out_channels, activation);
  }
  std::unique_ptr<Operator> add(const Format& a, const Format& b, Activation activation) override {
    return reference::make_add(a, b, activation);
  }
  std::unique_ptr<Loss> softmax_cross_entropy(const Format& logits) override {
    return reference::make_softmax_cross_entropy(logits);
  }

  void sgd(const SgdStep& step) override {
    check_sgd(step);
    sgd_step(step);
  }

  [[nodiscard]] MachineLimits measure_limits(DType dtype) override {
    return ops::measure_limits(dtype, [](const auto& body) { body(0, 1); });
  }
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace lockstep::ops
