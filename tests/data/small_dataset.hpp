// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "lockstep/data/images.hpp"

namespace lockstep::data {

/// Returns images whose bytes depend on their position: (7·sample + 3·channel + pixel) modulo 256. Labels are sample
/// mod 10.
inline Images small_images(std::int64_t samples, ImageShape shape = {2, 3, 4}) {
  Images images{.name = "small", .shape = shape, .classes = 10};
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    images.labels.push_back(static_cast<std::int32_t>(sample % 10));
    for (std::int64_t channel = 0; channel < shape.channels; ++channel)
      for (std::int64_t pixel = 0; pixel < shape.pixels(); ++pixel)
        images.images.push_back(static_cast<std::uint8_t>(7 * sample + 3 * channel + pixel));
  }
  return images;
}

/// Returns these images as a data set, normalized by their own statistics.
inline std::shared_ptr<const ImageDataset> small_dataset(std::int64_t samples) {
  Images images = small_images(samples);
  const Normalization normalization = measure_normalization(images);
  return std::make_shared<ImageDataset>(std::move(images), normalization);
}

}  // namespace lockstep::data
