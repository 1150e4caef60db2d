// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lockstep/base/buffer.hpp"

namespace lockstep::ops {

/// Extent of an activation: images, channels, rows, columns. A matrix N×C has height = width = 1.
struct Shape {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  [[nodiscard]] std::int64_t count() const { return batch * channels * height * width; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The memory layout of an activation and of its gradient. Without `native` it is plain row-major NCHW; otherwise it is
/// a compute library's own layout, for instance in blocks of 16 channels.
struct Format {
  Shape shape;
  DType dtype = DType::float32;
  Bytes bytes;                         ///< size in memory, with the library's padding
  std::shared_ptr<const void> native;  ///< the library's descriptor; empty for plain
  std::string_view layout = "nchw";    ///< readable name

  /// Row-major without padding, which every compute library accepts.
  static Format plain(Shape shape, DType dtype) { return {shape, dtype, {shape.count() * size_of(dtype)}}; }
};

/// The formats of an operator's inputs.
using Formats = std::span<const Format>;

}  // namespace lockstep::ops
