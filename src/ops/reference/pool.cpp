// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

/// Returns each window's range along one axis, without padding.
std::vector<Stretch> stretches(std::int64_t windows, std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                               std::int64_t padding) {
  std::vector<Stretch> result;
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t begin = i * stride - padding;
    result.push_back({std::max<std::int64_t>(begin, 0), std::min(begin + kernel, extent)});
  }
  return result;
}

std::vector<Stretch> adaptive_stretches(std::int64_t windows, std::int64_t extent) {
  std::vector<Stretch> result;
  for (std::int64_t i = 0; i < windows; ++i) result.push_back(adaptive_window(i, windows, extent));
  return result;
}

/// The windows of a pool: the product of ranges of rows and of columns, which are the same in all planes.
class PoolWindows {
 public:
  template <typename Kind>
  PoolWindows(const Kind& pool, const Shape& in, const Shape& out)
      : in_(in),
        rows_(stretches(out.height, in.height, pool.kernel.height, pool.stride.height, pool.padding.height)),
        columns_(stretches(out.width, in.width, pool.kernel.width, pool.stride.width, pool.padding.width)) {}
  PoolWindows(const AdaptiveAveragePool& pool, const Shape& in, const Shape& /*out*/)
      : in_(in),
        rows_(adaptive_stretches(pool.height, in.height)),
        columns_(adaptive_stretches(pool.width, in.width)) {}

  struct Window {
    std::int64_t first;  ///< index of the window's first element
    std::int64_t rows;
    std::int64_t columns;
  };

  /// Calls `f(output index, window)` for every window, in row-major order.
  template <typename F>
  void for_each(const F& f) const {
    std::int64_t o = 0;
    for (std::int64_t plane = 0; plane < in_.batch * in_.channels; ++plane) {
      for (const Stretch& y : rows_) {
        for (const Stretch& x : columns_) {
          const std::int64_t first = (plane * in_.height + y.begin) * in_.width + x.begin;
          f(o++, Window{first, y.end - y.begin, x.end - x.begin});
        }
      }
    }
  }

  /// Calls `f(input index)` for every element of a window, in row-major order.
  template <typename F>
  void for_each_element(const Window& window, const F& f) const {
    for (std::int64_t y = 0; y < window.rows; ++y) {
      const std::int64_t row = window.first + y * in_.width;
      for (std::int64_t i = row; i < row + window.columns; ++i) f(i);
    }
  }

  [[nodiscard]] const Shape& in() const { return in_; }

 private:
  Shape in_;
  std::vector<Stretch> rows_;
  std::vector<Stretch> columns_;
};

template <typename T>
class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(const Format& in, const MaxPool& pool)
      : Kernel({.inputs = {in},
                .output = output_of(pool, in),
                .backward_reads_output = pool.activation != Activation::none}),
        windows_(pool, in.shape, traits().output.shape),
        activation_(pool.activation) {}

  void forward(const Arguments& call) override {
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    windows_.for_each([&](std::int64_t o, const PoolWindows::Window& window) { out[o] = in[largest(in, window)]; });
    activate(activation_, out, traits().output.shape.count());
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* dy = static_cast<T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    activate_backward(activation_, static_cast<const T*>(call.output), dy, traits().output.shape.count());
    std::fill_n(dx, windows_.in().count(), T{0});
    windows_.for_each([&](std::int64_t o, const PoolWindows::Window& window) { dx[largest(in, window)] += dy[o]; });
  }

 private:
  [[nodiscard]] std::int64_t largest(const T* in, const PoolWindows::Window& window) const {
    std::int64_t best = window.first;
    windows_.for_each_element(window, [&](std::int64_t i) { best = in[i] > in[best] || std::isnan(in[i]) ? i : best; });
    return best;
  }

  PoolWindows windows_;
  Activation activation_;
};

/// Sums are computed in double, because a window can be a whole image.
template <typename T>
class AveragePoolKernel final : public Kernel {
 public:
  AveragePoolKernel(const Format& in, const AveragePool& pool)
      : AveragePoolKernel(in, pool, pool.count_include_pad ? pool.kernel.area() : 0) {}
  AveragePoolKernel(const Format& in, const AdaptiveAveragePool& pool) : AveragePoolKernel(in, pool, 0) {}

  void forward(const Arguments& call) override {
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    windows_.for_each([&](std::int64_t o, const PoolWindows::Window& window) {
      double sum = 0;
      windows_.for_each_element(window, [&](std::int64_t i) { sum += static_cast<double>(in[i]); });
      out[o] = static_cast<T>(sum / static_cast<double>(divisor(window)));
    });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(dx, windows_.in().count(), T{0});
    windows_.for_each([&](std::int64_t o, const PoolWindows::Window& window) {
      const T share = dy[o] / static_cast<T>(divisor(window));
      windows_.for_each_element(window, [&](std::int64_t i) { dx[i] += share; });
    });
  }

 private:
  template <typename Kind>
  AveragePoolKernel(const Format& in, const Kind& pool, std::int64_t divisor)
      : Kernel(reading_gradients_only(in, output_of(pool, in))),
        windows_(pool, in.shape, traits().output.shape),
        divisor_(divisor) {}

  [[nodiscard]] std::int64_t divisor(const PoolWindows::Window& window) const {
    return divisor_ > 0 ? divisor_ : window.rows * window.columns;
  }

  PoolWindows windows_;
  std::int64_t divisor_;  ///< 0: each window is divided by its own size
};

}  // namespace

KernelPtr make(const MaxPool& pool, Formats in) { return make_for<MaxPoolKernel>(in, pool); }

KernelPtr make(const AveragePool& pool, Formats in) { return make_for<AveragePoolKernel>(in, pool); }

KernelPtr make(const GlobalAveragePool& /*pool*/, Formats in) {
  return make_for<AveragePoolKernel>(in, AdaptiveAveragePool{1, 1});
}

KernelPtr make(const AdaptiveAveragePool& pool, Formats in) { return make_for<AveragePoolKernel>(in, pool); }

}  // namespace lockstep::ops::reference
