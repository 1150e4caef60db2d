// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/images.hpp"
#include "vision/synthetic/synthetic.hpp"

namespace lockstep::testing_support {

/// Returns the middle `side` × `side` pixels of each drawn digit: the same task, but faster.
inline data::Images middle_of_digits(const vision::Source& digits, std::int64_t side) {
  constexpr std::int64_t whole = 28;
  data::Images part{.name = digits.format(), .shape = {1, side, side}, .classes = 10};
  const std::int64_t first = (whole - side) / 2;
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    digits.read(i, bytes);
    for (std::int64_t row = first; row < first + side; ++row)
      for (std::int64_t column = first; column < first + side; ++column)
        part.images.push_back(static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(row * whole + column)]));
    part.labels.push_back(digits.annotation(i).label);
  }
  return part;
}

inline data::DatasetPair small_digits(std::int64_t train, std::int64_t test, std::int64_t side = 28) {
  const vision::SourcePair digits = vision::synthetic_digits({.seed = 3, .train = {train}, .test = {test}});
  return data::normalized(middle_of_digits(*digits.train, side), middle_of_digits(*digits.val, side));
}

}  // namespace lockstep::testing_support
