// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "ops/choices.hpp"
#include "ops/rounded_kernel.hpp"

namespace lockstep::ops {
namespace {

/// What multiplies its inputs by its parameters. An embedding copies its parameters only, and its result is rounded.
bool is_product(const Operator& op) {
  return std::holds_alternative<Convolution>(op) || std::holds_alternative<TransposedConvolution>(op) ||
         std::holds_alternative<Linear>(op) || std::holds_alternative<Lstm>(op);
}

bool lies_alike(const Format& a, const Format& b) { return a.native == b.native; }

/// The format that the inner kernel wants an input in, as the decorated one says it.
Format wanted_format(const Format& inner, const Format& given, bool product) {
  if (inner.dtype != DType::float32 || !(product || is_rounded(given))) return inner;
  return is_rounded(given) && lies_alike(inner, inner_of(given)) ? given : rounded(inner);
}

class RoundedOps final : public Ops {
 public:
  RoundedOps(std::unique_ptr<Ops> inner, DType half)
      : inner_(std::move(inner)),
        half_(half),
        name_(std::string(inner_->name()) + " rounded to " + std::string(lockstep::name(half))),
        scratch_(std::make_shared<Scratch>()) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }
  [[nodiscard]] DType values(DType /*reals*/) const override { return half_; }
  [[nodiscard]] std::unique_ptr<Ops> another() const override { return make_rounded_ops(inner_->another(), half_); }
  [[nodiscard]] std::string arithmetic() const override {
    return inner_->arithmetic() + ", rounded to " + std::string(lockstep::name(half_));
  }

  std::unique_ptr<Kernel> reorder(const Format& from, const Format& to) override {
    const Format& lies = inner_of(from);
    const Format& shall_lie = inner_of(to);
    auto inner = lies_alike(lies, shall_lie) ? nullptr : inner_->reorder(lies, shall_lie);
    return std::make_unique<RoundedReorder>(std::move(inner), from, to, half_);
  }

  [[nodiscard]] std::vector<Algorithms> candidates(const Operator& op, std::span<const Format> inputs) override {
    std::vector<Format> lie;
    for (const Format& input : inputs) lie.push_back(inner_of(input));
    return inner_->candidates(op, lie);
  }
  void use(const Choices& choices) override { inner_->use(choices); }
  [[nodiscard]] const Choices& choices() const override { return inner_->choices(); }

  void sgd(const SgdStep& step) override { inner_->sgd(step); }
  void average(const AverageStep& step) override { inner_->average(step); }
  [[nodiscard]] double sum_of_squares(const ConstBuffer& values) override { return inner_->sum_of_squares(values); }
  [[nodiscard]] MachineLimits measure_limits(DType dtype) override { return inner_->measure_limits(dtype); }

 private:
  std::unique_ptr<Kernel> make_kernel(const Operator& op, std::span<const Format> inputs, const Signature& signature,
                                      DType reals) override {
    std::vector<Format> lie;
    for (const Format& input : inputs) lie.push_back(inner_of(input));
    std::unique_ptr<Kernel> inner = inner_->make(op, lie, reals);
    // Gradients of parameters are added in float32, as they come.
    if (std::holds_alternative<Add>(op) && std::none_of(inputs.begin(), inputs.end(), is_rounded)) return inner;
    const bool product = is_product(op);
    Traits traits = inner->traits();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      traits.inputs[i] = wanted_format(traits.inputs[i], inputs[i], product);
    if (!signature.is_loss) traits.output = rounded(traits.output);
    return std::make_unique<RoundedKernel>(std::move(inner), std::move(traits), half_,
                                           product ? signature.parameters : std::vector<OwnedTensor>{}, scratch_);
  }

  std::unique_ptr<Ops> inner_;
  DType half_;
  std::string name_;
  std::shared_ptr<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Ops> make_rounded_ops(std::unique_ptr<Ops> inner, DType half) {
  if (half != DType::float16 && half != DType::bfloat16) {
    throw Error(ErrorCode::invalid_argument,
                "values cannot be rounded to " + std::string(name(half)) + "; use float16 or bfloat16");
  }
  if (!inner->supports(DType::float32)) {
    throw Error(ErrorCode::unsupported, "the " + std::string(inner->name()) +
                                            " operators do not compute in float32, so there is nothing to be rounded");
  }
  return std::make_unique<RoundedOps>(std::move(inner), half);
}

}  // namespace lockstep::ops
