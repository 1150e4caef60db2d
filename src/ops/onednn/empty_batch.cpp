// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/empty_batch.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::ops::onednn {

namespace {

class EmptyBatch final : public Operator {
 public:
  EmptyBatch(const Shape& out, const Arity& arity, std::vector<std::int64_t> parameter_counts)
      : out_(Format::plain(out, DType::float32)), arity_(arity), parameter_counts_(std::move(parameter_counts)) {}

  [[nodiscard]] const Format& output() const override { return out_; }
  void forward(const Forward& call) override { arity_.check(call); }
  void backward(const Backward& call) override {
    arity_.check(call);
    for (std::size_t i = 0; i < parameter_counts_.size(); ++i) {
      std::fill_n(static_cast<float*>(call.parameter_gradients[i]), parameter_counts_[i], 0.0F);
    }
  }

 private:
  Format out_;
  Arity arity_;
  std::vector<std::int64_t> parameter_counts_;
};

}  // namespace

std::unique_ptr<Operator> make_empty_batch(const Shape& out, const Arity& arity,
                                           std::vector<std::int64_t> parameter_counts) {
  return std::make_unique<EmptyBatch>(out, arity, std::move(parameter_counts));
}

}  // namespace lockstep::ops::onednn
