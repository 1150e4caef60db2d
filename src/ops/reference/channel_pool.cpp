// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Goes through the channels of an image one after the other, so that the inner loop is over positions. Means are
/// summed in double.
template <typename T>
class ChannelPoolKernel final : public Kernel {
 public:
  ChannelPoolKernel(const Format& in, const ChannelPool& pool)
      : Kernel({.inputs = {in},
                .output = output_of(pool, in),
                .backward_reads_inputs = pool.kind == ChannelPool::Kind::max,
                .backward_reads_output = false}),
        kind_(pool.kind),
        in_(in.shape),
        positions_(in.shape.height * in.shape.width),
        sums_(static_cast<std::size_t>(positions_)),
        largest_(sums_.size()) {}

  void forward(const Arguments& call) override {
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      const T* x = static_cast<const T*>(call.inputs[0]) + n * in_.channels * positions_;
      T* y = static_cast<T*>(call.output) + n * positions_;
      if (kind_ == ChannelPool::Kind::mean) {
        average(x, y);
      } else {
        find_largest(x);
        for_each_position([&](std::int64_t i, std::size_t at) { y[i] = x[largest_[at] * positions_ + i]; });
      }
    }
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    const T* dy = static_cast<const T*>(call.output_gradient);
    const auto channels = static_cast<T>(in_.channels);
    for (std::int64_t n = 0; n < in_.batch; ++n, dx += in_.channels * positions_, dy += positions_) {
      if (kind_ == ChannelPool::Kind::max)
        find_largest(static_cast<const T*>(call.inputs[0]) + n * in_.channels * positions_);
      for (std::int64_t c = 0; c < in_.channels; ++c) {
        for_each_position([&](std::int64_t i, std::size_t at) {
          const bool has_it = kind_ == ChannelPool::Kind::max && largest_[at] == c;
          const T part = kind_ == ChannelPool::Kind::mean ? dy[i] / channels : has_it ? dy[i] : T{0};
          dx[c * positions_ + i] = part;
        });
      }
    }
  }

 private:
  /// Calls `f(position, position as an index)`.
  template <typename F>
  void for_each_position(const F& f) const {
    for (std::int64_t i = 0; i < positions_; ++i) f(i, static_cast<std::size_t>(i));
  }

  void average(const T* x, T* y) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (std::int64_t c = 0; c < in_.channels; ++c, x += positions_)
      for_each_position([&](std::int64_t i, std::size_t at) { sums_[at] += static_cast<double>(x[i]); });
    const auto channels = static_cast<double>(in_.channels);
    for_each_position([&](std::int64_t i, std::size_t at) { y[i] = static_cast<T>(sums_[at] / channels); });
  }

  /// Sets the channel of the largest element of each position.
  void find_largest(const T* x) {
    std::fill(largest_.begin(), largest_.end(), 0);
    for (std::int64_t c = 1; c < in_.channels; ++c) {
      for_each_position([&](std::int64_t i, std::size_t at) {
        const T value = x[c * positions_ + i];
        const T best = x[largest_[at] * positions_ + i];
        if (value > best || (std::isnan(value) && !std::isnan(best))) largest_[at] = c;
      });
    }
  }

  ChannelPool::Kind kind_;
  Shape in_;
  std::int64_t positions_;
  std::vector<double> sums_;           // by position
  std::vector<std::int64_t> largest_;  // by position
};

}  // namespace

KernelPtr make(const ChannelPool& pool, Formats in) { return make_for<ChannelPoolKernel>(in, pool); }

}  // namespace lockstep::ops::reference
