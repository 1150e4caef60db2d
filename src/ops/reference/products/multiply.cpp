// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

/// One or several axes of a sample's result, and the distance between its elements in each factor: 0 if the factor has
/// only one element along it.
struct Loop {
  std::int64_t extent = 1;
  std::array<std::int64_t, 2> steps{};
};

/// The axes of a result, the innermost last. Axes that can be combined are one loop, so that the inner loop is long.
using Loops = std::array<Loop, 3>;

Loops loops_of(const Shape& out, Formats in) {
  Loops loops;
  std::size_t first = loops.size();  // index of the first loop that is used
  std::array<std::int64_t, 2> strides{1, 1};
  for (std::size_t k = loops.size(); k-- > 0;) {
    Loop loop{.extent = sample_extents(out)[k]};
    for (std::size_t f = 0; f < 2; ++f) {
      const std::int64_t extent = sample_extents(in[f].shape)[k];
      loop.steps[f] = extent == 1 ? 0 : strides[f];
      strides[f] *= extent;
    }
    if (loop.extent == 1) continue;
    const auto goes_on = [&](std::size_t f) { return loop.steps[f] == loops[first].steps[f] * loops[first].extent; };
    if (first < loops.size() && goes_on(0) && goes_on(1)) {
      loops[first].extent *= loop.extent;
    } else {
      loops[--first] = loop;
    }
  }
  return loops;
}

template <typename T>
class MultiplyKernel final : public Kernel {
 public:
  MultiplyKernel(Formats in, const Multiply& product)
      : Kernel({.inputs = {in[0], in[1]}, .output = output_of(product, in), .backward_reads_output = false}),
        out_(traits().output.shape),
        loops_(loops_of(out_, in)) {
    for (std::size_t f = 0; f < 2; ++f) {
      counts_[f] = sample(in[f].shape);
      if (counts_[f] < sample(out_)) sums_[f].resize(static_cast<std::size_t>(counts_[f]));
    }
  }

  void forward(const Arguments& call) override {
    const auto* first = static_cast<const T*>(call.inputs[0]);
    const auto* second = static_cast<const T*>(call.inputs[1]);
    auto* out = static_cast<T*>(call.output);
    for (std::int64_t n = 0; n < out_.batch; ++n) {
      for_each_row([&](std::int64_t o, std::int64_t i, std::int64_t j) {
        multiply(first + n * counts_[0] + i, row().steps[0], second + n * counts_[1] + j, row().steps[1],
                 out + n * sample(out_) + o);
      });
    }
  }

  void backward(const Arguments& call) override {
    for (std::size_t f = 0; f < 2; ++f) {
      if (call.input_gradients[f] == nullptr) continue;
      for (std::int64_t n = 0; n < out_.batch; ++n) {
        const auto* dy = static_cast<const T*>(call.output_gradient) + n * sample(out_);
        const auto* other = static_cast<const T*>(call.inputs[1 - f]) + n * counts_[1 - f];
        backward_sample(f, dy, other, static_cast<T*>(call.input_gradients[f]) + n * counts_[f]);
      }
    }
  }

 private:
  void backward_sample(std::size_t f, const T* dy, const T* other, T* gradient) {
    std::vector<double>& sums = sums_[f];
    std::fill(sums.begin(), sums.end(), 0.0);
    const std::int64_t step = row().steps[1 - f];
    for_each_row([&](std::int64_t o, std::int64_t i, std::int64_t j) {
      const std::int64_t mine = f == 0 ? i : j;
      const T* factor = other + (f == 0 ? j : i);
      if (sums.empty()) {
        multiply(dy + o, 1, factor, step, gradient + mine);
      } else if (row().steps[f] == 0) {
        sums[static_cast<std::size_t>(mine)] +=
            step == 0 ? sum(dy + o, row().extent) * static_cast<double>(*factor) : dot(dy + o, factor, row().extent);
      } else {
        add_products(dy + o, factor, step, sums.data() + mine);
      }
    });
    std::transform(sums.begin(), sums.end(), gradient, [](double value) { return static_cast<T>(value); });
  }

  void multiply(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* out) const {
    if (a_step == 0) std::swap(a, b);
    if (a_step * b_step != 0) {
      for (std::int64_t i = 0; i < row().extent; ++i) out[i] = a[i] * b[i];
    } else {
      const T factor = *b;
      for (std::int64_t i = 0; i < row().extent; ++i) out[i] = a[i] * factor;
    }
  }

  void add_products(const T* dy, const T* factor, std::int64_t step, double* sums) const {
    for (std::int64_t i = 0; i < row().extent; ++i)
      sums[i] += static_cast<double>(dy[i]) * static_cast<double>(factor[i * step]);
  }

  /// Calls `f(first index in the result, in the first factor, in the second factor)` for each innermost row of a
  /// sample.
  template <typename F>
  void for_each_row(const F& f) const {
    std::int64_t o = 0;
    for (std::int64_t y = 0; y < loops_[0].extent; ++y) {
      for (std::int64_t x = 0; x < loops_[1].extent; ++x, o += row().extent) {
        f(o, y * loops_[0].steps[0] + x * loops_[1].steps[0], y * loops_[0].steps[1] + x * loops_[1].steps[1]);
      }
    }
  }

  [[nodiscard]] const Loop& row() const { return loops_[2]; }
  [[nodiscard]] static std::int64_t sample(const Shape& shape) { return shape.channels * shape.height * shape.width; }

  Shape out_;
  Loops loops_;
  std::array<std::int64_t, 2> counts_{};       ///< elements of each factor in one sample
  std::array<std::vector<double>, 2> sums_{};  ///< of gradients of factors smaller than the result
};

}  // namespace

KernelPtr make(const Multiply& product, Formats in) { return make_for<MultiplyKernel>(in, product); }

}  // namespace lockstep::ops::reference
