// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/split_mix.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// An element's random number is a hash of its position, so backward computes the mask again instead of reading it.
template <typename T>
class DropoutKernel final : public Kernel {
 public:
  DropoutKernel(const Format& in, const Dropout& dropout)
      : Kernel(reading_gradients_only(in, in)),
        dropout_(dropout),
        samples_(in.shape.batch),
        sample_(in.shape.channels * in.shape.height * in.shape.width) {}

  void forward(const Arguments& call) override {
    mask(static_cast<const T*>(call.inputs[0]), static_cast<T*>(call.output), *call.rng_key);
  }
  void infer(const Arguments& call) override {
    std::copy_n(static_cast<const T*>(call.inputs[0]), samples_ * sample_, static_cast<T*>(call.output));
  }
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    mask(static_cast<const T*>(call.output_gradient), static_cast<T*>(call.input_gradients[0]), *call.rng_key);
  }

 private:
  /// Returns the key of one sample of the step, which does not depend on the rank that has the sample.
  [[nodiscard]] std::uint64_t key_of(const RngKey& rng_key, std::int64_t sample) const {
    std::uint64_t key = split_mix::mix(rng_key.seed + split_mix::golden_ratio);
    for (const auto part : {static_cast<std::uint64_t>(rng_key.step), dropout_.key,
                            static_cast<std::uint64_t>(rng_key.first_sample + sample)})
      key = split_mix::mix(key + (part + 1) * split_mix::golden_ratio);
    return key;
  }

  void mask(const T* in, T* out, const RngKey& rng_key) const {
    const T scale = static_cast<T>(1 / (1 - dropout_.probability));
    for (std::int64_t n = 0; n < samples_; ++n) {
      const std::uint64_t key = key_of(rng_key, n);
      for (std::int64_t i = n * sample_; i < (n + 1) * sample_; ++i) {
        const auto position = static_cast<std::uint64_t>(i - n * sample_ + 1);
        const std::uint64_t bits = split_mix::mix(key + position * split_mix::golden_ratio);
        const bool kept = static_cast<double>(bits >> 11) * 0x1p-53 >= dropout_.probability;
        out[i] = kept ? scale * in[i] : T{0};
      }
    }
  }

  Dropout dropout_;
  std::int64_t samples_;
  std::int64_t sample_;  // elements of one sample
};

}  // namespace

KernelPtr make(const Dropout& dropout, Formats in) { return make_for<DropoutKernel>(in, dropout); }

}  // namespace lockstep::ops::reference
