// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/reference/products/gemm.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

/// The windows of one image as a matrix ("im2col"): row (channel, ky, kx) holds the elements that this weight is
/// multiplied by at every position of the window, and zeros for padding.
template <typename T>
class Unrolled {
 public:
  /// @param image      channels, height and width of the image
  /// @param positions  number of window positions: height and width. Those beyond the image's end cover padding only
  Unrolled(const Shape& image, const Shape& positions, const Windows& windows)
      : image_(image),
        height_(positions.height),
        width_(positions.width),
        shape_(windows),
        elements_(static_cast<std::size_t>(rows() * columns())) {}

  [[nodiscard]] std::int64_t rows() const { return image_.channels * shape_.kernel.area(); }
  [[nodiscard]] std::int64_t columns() const { return height_ * width_; }
  [[nodiscard]] std::int64_t image_size() const { return image_.channels * image_.height * image_.width; }

  [[nodiscard]] Matrix<const T> matrix() const { return {elements_.data(), rows(), columns(), columns()}; }
  /// Zeros the matrix and returns it, so that a product can be added.
  Matrix<T> cleared() {
    std::fill(elements_.begin(), elements_.end(), T{0});
    return {elements_.data(), rows(), columns(), columns()};
  }

  void unroll(const T* image) {
    T* elements = cleared().data;
    visit([&](std::int64_t unrolled, std::int64_t pixel) { elements[unrolled] = image[pixel]; });
  }

  /// Overwrites each pixel with the sum of the matrix elements that come from it.
  void roll(T* image) const {
    const T* elements = elements_.data();
    std::fill_n(image, image_size(), T{0});
    visit([&](std::int64_t unrolled, std::int64_t pixel) { image[pixel] += elements[unrolled]; });
  }

 private:
  /// The range of positions o whose pixel o·stride + shift is inside the image, along one axis.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t shift;
  };
  static Range inside(std::int64_t shift, std::int64_t stride, std::int64_t extent, std::int64_t positions) {
    const std::int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const std::int64_t end = shift >= extent ? 0 : (extent - 1 - shift) / stride + 1;
    return {begin, std::min(end, positions), shift};
  }

  /// Calls `f(index in the matrix, index in the image)` for every pair that is not padding.
  template <typename F>
  void visit(const F& f) const {
    const auto& [kernel, stride, padding, dilation] = shape_;
    for (std::int64_t row = 0; row < rows(); ++row) {
      const std::int64_t channel = row / kernel.area();
      const std::int64_t ky = row / kernel.width % kernel.height;
      const std::int64_t kx = row % kernel.width;
      const Range ys = inside(ky * dilation.height - padding.height, stride.height, image_.height, height_);
      const Range xs = inside(kx * dilation.width - padding.width, stride.width, image_.width, width_);
      for (std::int64_t y = ys.begin; y < ys.end; ++y) {
        const std::int64_t from = (channel * image_.height + y * stride.height + ys.shift) * image_.width + xs.shift;
        const std::int64_t to = row * columns() + y * width_;
        for (std::int64_t x = xs.begin; x < xs.end; ++x) f(to + x, from + x * stride.width);
      }
    }
  }

  Shape image_;
  std::int64_t height_;
  std::int64_t width_;
  Windows shape_;
  std::vector<T> elements_;
};

/// Returns matrix number `index` of consecutive matrices of equal size.
template <typename U>
Matrix<U> matrix_at(U* all, std::int64_t index, std::int64_t rows, std::int64_t columns) {
  return {all + index * rows * columns, rows, columns, columns};
}

/// Calls `f(part, group)` for every group of every image; parts are counted through all images.
template <typename F>
void for_each_group(std::int64_t images, std::int64_t groups, const F& f) {
  for (std::int64_t part = 0; part < images * groups; ++part) f(part, part % groups);
}

/// Adds each channel's bias to all of its elements.
template <typename T>
void add_to_channels(T* images, const Shape& shape, const T* bias) {
  const std::int64_t positions = shape.height * shape.width;
  for (std::int64_t channel = 0; channel < shape.batch * shape.channels; ++channel) {
    T* elements = images + channel * positions;
    const T added = bias[channel % shape.channels];
    for (std::int64_t i = 0; i < positions; ++i) elements[i] += added;
  }
}

/// Overwrites `sums` with each channel's sum over all images, computed in double.
template <typename T>
void sum_channels(const T* images, const Shape& shape, T* sums) {
  const std::int64_t positions = shape.height * shape.width;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    double sum = 0;
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      const T* channel = images + (n * shape.channels + c) * positions;
      for (std::int64_t i = 0; i < positions; ++i) sum += static_cast<double>(channel[i]);
    }
    sums[c] = static_cast<T>(sum);
  }
}

}  // namespace lockstep::ops::reference
