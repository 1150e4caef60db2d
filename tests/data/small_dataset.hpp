// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Images whose every byte tells where it stands: (7·sample + 3·channel + pixel) modulo 256. Labels are sample mod 10.
inline Dataset small_dataset(std::int64_t samples, ImageShape shape = {2, 3, 4}) {
  Dataset dataset{.name = "small", .shape = shape, .classes = 10};
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    dataset.labels.push_back(static_cast<std::int32_t>(sample % 10));
    for (std::int64_t channel = 0; channel < shape.channels; ++channel)
      for (std::int64_t pixel = 0; pixel < shape.pixels(); ++pixel)
        dataset.images.push_back(static_cast<std::uint8_t>(7 * sample + 3 * channel + pixel));
  }
  return dataset;
}

}  // namespace lockstep::data
