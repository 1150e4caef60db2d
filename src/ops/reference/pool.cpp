// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class Pool : public Kernel {
 public:
  template <typename Kind>
  Pool(const Format& in, const Kind& pool, bool backward_reads_inputs)
      : Kernel({.inputs = {in},
                .output = output_of(pool, in),
                .backward_reads_inputs = backward_reads_inputs,
                .backward_reads_output = false}),
        in_(in.shape),
        shape_{pool.kernel, pool.stride},
        out_(traits().output) {}

 protected:
  /// Calls `f(output index, index of the window's first element)` for every window, in row-major order.
  template <typename F>
  void for_each_window(const F& f) const {
    std::int64_t o = 0;
    for (std::int64_t plane = 0; plane < in_.batch * in_.channels; ++plane) {
      for (std::int64_t y = 0; y < out_.shape.height; ++y) {
        for (std::int64_t x = 0; x < out_.shape.width; ++x, ++o) {
          f(o, (plane * in_.height + y * shape_.stride) * in_.width + x * shape_.stride);
        }
      }
    }
  }

  /// Calls `f(input index)` for every element of a window, in row-major order.
  template <typename F>
  void for_each_element(std::int64_t first, const F& f) const {
    for (std::int64_t y = 0; y < shape_.kernel; ++y) {
      for (std::int64_t x = 0; x < shape_.kernel; ++x) f(first + y * in_.width + x);
    }
  }

  [[nodiscard]] const Shape& in() const { return in_; }
  [[nodiscard]] std::int64_t window() const { return shape_.kernel * shape_.kernel; }

 private:
  Shape in_;
  Windows shape_;
  Format out_;
};

template <typename T>
class MaxPoolKernel final : public Pool<T> {
 public:
  MaxPoolKernel(const Format& in, const MaxPool& pool) : Pool<T>(in, pool, true) {}

  void forward(const Arguments& call) override {
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    this->for_each_window([&](std::int64_t o, std::int64_t first) { out[o] = in[largest(in, first)]; });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* in = static_cast<const T*>(call.inputs[0]);
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(dx, this->in().count(), T{0});
    this->for_each_window([&](std::int64_t o, std::int64_t first) { dx[largest(in, first)] += dy[o]; });
  }

 private:
  [[nodiscard]] std::int64_t largest(const T* in, std::int64_t first) const {
    std::int64_t best = first;
    this->for_each_element(first, [&](std::int64_t i) { best = in[i] > in[best] ? i : best; });
    return best;
  }
};

template <typename T>
class AveragePoolKernel final : public Pool<T> {
 public:
  AveragePoolKernel(const Format& in, const AveragePool& pool) : Pool<T>(in, pool, false) {}

  void forward(const Arguments& call) override {
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    this->for_each_window([&](std::int64_t o, std::int64_t first) {
      T sum = 0;
      this->for_each_element(first, [&](std::int64_t i) { sum += in[i]; });
      out[o] = sum / static_cast<T>(this->window());
    });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(dx, this->in().count(), T{0});
    this->for_each_window([&](std::int64_t o, std::int64_t first) {
      const T share = dy[o] / static_cast<T>(this->window());
      this->for_each_element(first, [&](std::int64_t i) { dx[i] += share; });
    });
  }
};

}  // namespace

std::unique_ptr<Kernel> make(const MaxPool& pool, std::span<const Format> in) {
  return make_for<MaxPoolKernel>(in, pool);
}

std::unique_ptr<Kernel> make(const AveragePool& pool, std::span<const Format> in) {
  return make_for<AveragePoolKernel>(in, pool);
}

}  // namespace lockstep::ops::reference
