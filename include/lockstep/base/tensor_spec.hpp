// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"

namespace lockstep {

/// The content of a batch's tensor, which determines its dtype.
enum class Content {
  real,     ///< in the precision of the training, float32 or float64
  integer,  ///< int32: labels, tokens
};

/// The real numbers that bytes stand for, by channel: the byte b is (b ÷ 255 − mean) ÷ deviation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;  ///< 1 for a constant channel

  /// Returns the number of every byte: channels × 256.
  [[nodiscard]] std::vector<double> table() const {
    std::vector<double> table;
    for (std::size_t channel = 0; channel < mean.size(); ++channel)
      for (int byte = 0; byte < 256; ++byte)
        table.push_back((static_cast<double>(byte) / 255 - mean[channel]) / deviation[channel]);
    return table;
  }
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

/// One named tensor of a batch, which data sets provide and models read.
struct TensorSpec {
  std::string name;
  /// Extent for one sample: channels × height × width. A number is 1×1×1, and a sequence has its steps in the width.
  std::array<std::int64_t, 3> extent{1, 1, 1};
  Content content = Content::real;
  /// The numbers that the elements of a real tensor stand for if they are uint8, one for each channel.
  std::optional<Normalization> bytes = {};

  /// Number of elements of one sample.
  [[nodiscard]] std::int64_t elements() const { return extent[0] * extent[1] * extent[2]; }
  /// The dtype of the elements, if real ones have the dtype `real`.
  [[nodiscard]] DType dtype(DType real) const {
    if (bytes) return DType::uint8;
    return content == Content::real ? real : DType::int32;
  }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace lockstep
