// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/empty_batch.hpp"

#include <algorithm>

namespace lockstep::ops::onednn {

namespace {

class EmptyBatch final : public Kernel {
 public:
  EmptyBatch(std::span<const Format> inputs, const Signature& signature)
      : Kernel({.inputs = {inputs.begin(), inputs.end()},
                .output = Format::plain(signature.output, inputs[0].dtype),
                .backward_reads_inputs = false,
                .backward_reads_output = false}) {
    for (const OwnedTensor& parameter : signature.parameters) parameter_counts_.push_back(parameter.count());
  }

  [[nodiscard]] std::string algorithm(Pass /*pass*/) const override { return "nothing"; }

  void forward(const Arguments& /*call*/) override {}
  void backward(const Arguments& call) override {
    for (std::size_t i = 0; i < parameter_counts_.size(); ++i) {
      std::fill_n(static_cast<float*>(call.parameter_gradients[i]), parameter_counts_[i], 0.0F);
    }
  }

 private:
  std::vector<std::int64_t> parameter_counts_;
};

}  // namespace

std::unique_ptr<Kernel> make_empty_batch(std::span<const Format> inputs, const Signature& signature) {
  return std::make_unique<EmptyBatch>(inputs, signature);
}

}  // namespace lockstep::ops::onednn
