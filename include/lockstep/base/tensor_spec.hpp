// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "lockstep/base/buffer.hpp"

namespace lockstep {

/// What elements of a batch's tensor mean, and so how they are kept.
enum class Content {
  real,     ///< in the precision that is trained in, float32 or float64
  integer,  ///< int32: labels, tokens
};

/// One named tensor of a batch: what data sets give and models take.
struct TensorSpec {
  std::string name;
  /// What one sample has of it: channels × height × width. A number is 1×1×1, a sequence has its steps in the width.
  std::array<std::int64_t, 3> extent{1, 1, 1};
  Content content = Content::real;

  /// Of one sample.
  [[nodiscard]] std::int64_t elements() const { return extent[0] * extent[1] * extent[2]; }
  /// Of the elements, where reals are kept in `real`.
  [[nodiscard]] DType dtype(DType real) const { return content == Content::real ? real : DType::int32; }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace lockstep
