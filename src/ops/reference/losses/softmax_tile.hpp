// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/softmax.hpp"
#include "lockstep/ops/format.hpp"

namespace lockstep::ops::reference {

/// The softmax over the classes at neighboring positions of a sample. A cross-entropy goes from tile to tile, because
/// the classes of a position are far apart in memory.
template <typename T>
class SoftmaxTile {
 public:
  /// Calls `f(sample, first position, number of positions)` for all tiles of the logits.
  template <typename F>
  static void for_each(const Shape& logits, const F& f) {
    const std::int64_t positions = logits.height * logits.width;
    for (std::int64_t n = 0; n < logits.batch; ++n)
      for (std::int64_t first = 0; first < positions; first += most) f(n, first, std::min(most, positions - first));
  }

  /// @param logits  the tile's first one; those of the next class are all positions of a sample further
  void compute(const T* logits, const Shape& shape, std::int64_t count) {
    scores_ = {logits, shape.channels, shape.height * shape.width, count};
    kernels::set_softmax(scores_, largest_.data(), winner_.data(), sum_.data());
  }
  [[nodiscard]] T largest(std::int64_t i) const { return largest_[static_cast<std::size_t>(i)]; }
  /// The class with the largest logit; the first one if there are several.
  [[nodiscard]] std::int32_t winner(std::int64_t i) const { return winner_[static_cast<std::size_t>(i)]; }
  /// Σ exp(logit − largest)
  [[nodiscard]] T sum(std::int64_t i) const { return sum_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] T logit(std::int64_t i, std::int64_t c) const { return scores_.first[c * scores_.stride + i]; }

  /// Sets the factors of a position's gradient. @see kernels::CrossEntropyTarget
  void set_target(std::int64_t i, T scale, T mass, T own) {
    const auto at = static_cast<std::size_t>(i);
    scale_[at] = scale;
    mass_[at] = mass;
    own_[at] = own;
  }
  /// Overwrites the gradients of the tile's logits. @param labels, gradients  the tile's first ones
  /// @param spread  returns the target of a class that is not the label
  template <typename Spread>
  void write_gradients(const std::int32_t* labels, const Spread& spread, T* gradients) const {
    for (std::int64_t c = 0; c < scores_.classes; ++c)
      kernels::set_cross_entropy_gradient(scores_, static_cast<std::int32_t>(c), {largest_.data(), sum_.data()},
                                          {labels, scale_.data(), mass_.data(), own_.data()}, spread(c),
                                          gradients + c * scores_.stride);
  }

 private:
  static constexpr std::int64_t most = 128;
  template <typename Element>
  using Each = std::array<Element, static_cast<std::size_t>(most)>;

  kernels::ClassScores<T> scores_{};
  Each<T> largest_;
  Each<std::int32_t> winner_;
  Each<T> sum_;
  Each<T> scale_;
  Each<T> mass_;
  Each<T> own_;
};

}  // namespace lockstep::ops::reference
