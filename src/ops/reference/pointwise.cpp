// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/split_mix.hpp"
#include "ops/formulas/functions.hpp"
#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

bool derived_by_output(const Pointwise& op) {
  return with_function<float>(op, [](const auto& function) { return function.by_output; });
}

template <typename T>
class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const Format& in, const Pointwise& function)
      : Kernel({.inputs = {in},
                .output = in,
                .backward_reads_inputs = !derived_by_output(function),
                .backward_reads_output = derived_by_output(function)}),
        function_(function),
        count_(in.shape.count()) {}

  void forward(const Arguments& call) override {
    const T* x = static_cast<const T*>(call.inputs[0]);
    T* y = static_cast<T*>(call.output);
    with_function<T>(function_, [&](const auto function) {
      for (std::int64_t i = 0; i < count_; ++i) y[i] = function.value(x[i]);
    });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    with_function<T>(function_, [&](const auto function) {
      const T* at = static_cast<const T*>(function.by_output ? call.output : call.inputs[0]);
      for (std::int64_t i = 0; i < count_; ++i) dx[i] = dy[i] * function.derivative(at[i]);
    });
  }

 private:
  Pointwise function_;
  std::int64_t count_;
};

template <typename T>
class ReluKernel final : public Kernel {
 public:
  ReluKernel(const Format& in, const Relu& /*relu*/)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false, .in_place_gradient = 0}), out_(in) {}

  void forward(const Arguments& call) override {
    T* out = static_cast<T*>(call.output);
    std::copy_n(static_cast<const T*>(call.inputs[0]), out_.shape.count(), out);
    activate(Activation::relu, out, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    if (dx != call.output_gradient) std::copy_n(static_cast<const T*>(call.output_gradient), out_.shape.count(), dx);
    activate_backward(Activation::relu, static_cast<const T*>(call.output), dx, out_.shape.count());
  }

 private:
  Format out_;
};

template <typename T>
class AddKernel final : public Kernel {
 public:
  AddKernel(const Format& a, const Add& add)
      : Kernel({.inputs = {a, a},
                .output = a,
                .backward_reads_inputs = false,
                .backward_reads_output = add.activation != Activation::none,
                .in_place_gradient = 0}),
        activation_(add.activation),
        out_(a) {}

  void forward(const Arguments& call) override {
    const T* a = static_cast<const T*>(call.inputs[0]);
    const T* b = static_cast<const T*>(call.inputs[1]);
    T* out = static_cast<T*>(call.output);
    for (std::int64_t i = 0; i < out_.shape.count(); ++i) out[i] = a[i] + b[i];
    activate(activation_, out, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(activation_, static_cast<const T*>(call.output), gradient, out_.shape.count());
    for (void* input_gradient : call.input_gradients) {
      if (input_gradient == nullptr || input_gradient == gradient) continue;
      std::copy_n(gradient, out_.shape.count(), static_cast<T*>(input_gradient));
    }
  }

 private:
  Activation activation_;
  Format out_;
};

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

KernelPtr make(const Pointwise& function, Formats in) { return make_for<PointwiseKernel>(in, function); }

KernelPtr make(const Relu& relu, Formats in) { return make_for<ReluKernel>(in, relu); }

KernelPtr make(const Add& add, Formats in) { return make_for<AddKernel>(in, add); }

KernelPtr make(const Dropout& dropout, Formats in) { return make_for<DropoutKernel>(in, dropout); }

}  // namespace lockstep::ops::reference
