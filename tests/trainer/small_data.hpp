// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/images_pair.hpp"
#include "lockstep/data/images.hpp"

namespace lockstep::testing_support {

/// Returns the middle `side` × `side` pixels of each image: the same task, but faster.
inline data::Images middle(const data::Images& whole, std::int64_t side) {
  data::Images part = whole;
  part.shape.height = part.shape.width = side;
  part.images.clear();
  const std::int64_t top = (whole.shape.height - side) / 2;
  const std::int64_t left = (whole.shape.width - side) / 2;
  for (std::int64_t i = 0; i < whole.size(); ++i) {
    const auto image = whole.image(i);
    for (std::int64_t c = 0; c < whole.shape.channels; ++c) {
      for (std::int64_t row = top; row < top + side; ++row) {
        const auto begin = image.begin() + (c * whole.shape.height + row) * whole.shape.width + left;
        part.images.insert(part.images.end(), begin, begin + side);
      }
    }
  }
  return part;
}

inline data::DatasetPair small_digits(std::int64_t train, std::int64_t test, std::int64_t side = 28) {
  const data::ImagesPair digits = data::synthetic_digits({.seed = 3, .train = {train}, .test = {test}});
  return data::normalized(middle(digits.train, side), middle(digits.test, side));
}

}  // namespace lockstep::testing_support
