// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
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

/// How an activation (or the gradient with respect to it, which has the same format) lies in memory.
/// Without `native` it is plain row-major NCHW; otherwise a back end's own, e.g. blocked by 16 channels.
struct Format {
  Shape shape;
  DType dtype = DType::float32;
  Bytes bytes;                         ///< memory it needs, a back end's padding included
  std::shared_ptr<const void> native;  ///< the back end's descriptor; empty for plain
  std::string_view layout = "nchw";    ///< its name, for people

  /// Row-major, without padding: what every implementation takes.
  static Format plain(Shape shape, DType dtype) { return {shape, dtype, {shape.count() * size_of(dtype)}}; }
};

}  // namespace lockstep::ops
