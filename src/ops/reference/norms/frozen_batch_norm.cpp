// SPDX-License-Identifier: Apache-2.0
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Computes y = x·scale + shift per channel, both in double, so that the result is rounded only once. Saved is each
/// channel's scale, because backward may not have the state.
template <typename T>
class FrozenBatchNormKernel final : public Kernel {
 public:
  FrozenBatchNormKernel(const Format& in, const FrozenBatchNorm& norm)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {in.shape.channels * size_of(in.dtype)},
                .backward_reads_inputs = false,
                .backward_reads_output = false}),
        epsilon_(norm.epsilon),
        in_(in.shape) {}

  void forward(const Arguments& call) override {
    infer(call);
    for (std::int64_t c = 0; c < in_.channels; ++c)
      static_cast<T*>(call.saved)[c] = static_cast<T>(affine_of(call, c).scale);
  }

  void infer(const Arguments& call) override {
    for_each_plane([&](std::int64_t begin, std::int64_t c) {
      const Affine affine = affine_of(call, c);
      const T* x = static_cast<const T*>(call.inputs[0]) + begin;
      T* y = static_cast<T*>(call.output) + begin;
      for (std::int64_t i = 0; i < plane(); ++i)
        y[i] = static_cast<T>(static_cast<double>(x[i]) * affine.scale + affine.shift);
    });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    for_each_plane([&](std::int64_t begin, std::int64_t c) {
      const T scale = static_cast<const T*>(call.saved)[c];
      const T* dy = static_cast<const T*>(call.output_gradient) + begin;
      T* dx = static_cast<T*>(call.input_gradients[0]) + begin;
      for (std::int64_t i = 0; i < plane(); ++i) dx[i] = dy[i] * scale;
    });
  }

 private:
  struct Affine {
    double scale;
    double shift;
  };
  [[nodiscard]] Affine affine_of(const Arguments& call, std::int64_t c) const {
    const auto state = [&](std::size_t k) { return static_cast<double>(static_cast<const T*>(call.state[k])[c]); };
    const double scale = state(0) / std::sqrt(state(3) + epsilon_);
    return {scale, state(1) - state(2) * scale};
  }

  /// Calls `f(index of the first element, channel)`.
  template <typename F>
  void for_each_plane(const F& f) const {
    for (std::int64_t i = 0; i < in_.batch * in_.channels; ++i) f(i * plane(), i % in_.channels);
  }
  [[nodiscard]] std::int64_t plane() const { return in_.height * in_.width; }

  double epsilon_;
  Shape in_;
};

}  // namespace

KernelPtr make(const FrozenBatchNorm& norm, Formats in) { return make_for<FrozenBatchNormKernel>(in, norm); }

}  // namespace lockstep::ops::reference
