// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstring>

#include "ops/axes.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

class ReshapeKernel final : public Kernel {
 public:
  ReshapeKernel(const Format& in, const Reshape& reshape)
      : Kernel(reading_gradients_only(in, output_of(reshape, in))) {}

  void forward(const Arguments& call) override { copy(call.inputs[0], call.output); }
  void backward(const Arguments& call) override { copy(call.output_gradient, call.input_gradients[0]); }

 private:
  void copy(const void* from, void* to) const {
    if (to != nullptr && traits().output.bytes.value > 0)
      std::memcpy(to, from, static_cast<std::size_t>(traits().output.bytes.value));
  }
};

/// Writes a result row by row, from elements that are a fixed step apart.
template <typename T>
class Permutation {
 public:
  /// @param out  the result's shape  @param order  which of the input's axes become the result's
  Permutation(const Shape& out, const std::array<Axis, 3>& order) : out_(out) {
    Extents in{};
    for (std::size_t i = 0; i < order.size(); ++i) in[index_of(order[i])] = sample_extents(out)[i];
    const Extents steps{in[1] * in[2], in[2], 1};
    for (std::size_t i = 0; i < order.size(); ++i) steps_[i] = steps[index_of(order[i])];
  }

  void run(const T* in, T* out) const {
    const std::int64_t sample = run_of(out_, Axis::channels);
    for (std::int64_t n = 0; n < out_.batch; ++n) {
      for (std::int64_t c = 0; c < out_.channels; ++c) {
        for (std::int64_t h = 0; h < out_.height; ++h, out += out_.width)
          copy_row(in + n * sample + c * steps_[0] + h * steps_[1], out);
      }
    }
  }

 private:
  void copy_row(const T* in, T* out) const {
    if (steps_[2] == 1) {
      std::memcpy(out, in, static_cast<std::size_t>(out_.width) * sizeof(T));
    } else {
      for (std::int64_t w = 0; w < out_.width; ++w) out[w] = in[w * steps_[2]];
    }
  }

  Shape out_;
  Extents steps_{};  ///< for each axis: distance in the input between neighbors in the result
};

std::array<Axis, 3> inverse_of(const std::array<Axis, 3>& order) {
  std::array<Axis, 3> inverse{};
  for (std::size_t i = 0; i < order.size(); ++i) inverse[index_of(order[i])] = static_cast<Axis>(i);
  return inverse;
}

template <typename T>
class PermuteKernel final : public Kernel {
 public:
  PermuteKernel(const Format& in, const Permute& permute)
      : Kernel(reading_gradients_only(in, output_of(permute, in))),
        there_(traits().output.shape, permute.order),
        back_(in.shape, inverse_of(permute.order)) {}

  void forward(const Arguments& call) override {
    there_.run(static_cast<const T*>(call.inputs[0]), static_cast<T*>(call.output));
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    back_.run(static_cast<const T*>(call.output_gradient), static_cast<T*>(call.input_gradients[0]));
  }

 private:
  Permutation<T> there_;
  Permutation<T> back_;
};

}  // namespace

KernelPtr make(const Reshape& reshape, Formats in) { return std::make_unique<ReshapeKernel>(in[0], reshape); }

KernelPtr make(const Permute& permute, Formats in) { return make_for<PermuteKernel>(in, permute); }

}  // namespace lockstep::ops::reference
