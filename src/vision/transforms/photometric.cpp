// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "data/sample_random.hpp"
#include "vision/image/color.hpp"
#include "vision/transforms/geometry.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

/// Everything is drawn for every sample, so that what is drawn for one property does not depend on the others.
void jitter(const ColorJitter& most, const data::SampleKey& key, Image& picture) {
  data::Random random = data::random_of(key, data::RandomStream::color_jitter);
  const auto factor = [&random](double change) {
    return static_cast<float>(random.uniform(std::max(1 - change, 0.0), 1 + change));
  };
  const float brightness = factor(most.brightness);
  const float contrast = factor(most.contrast);
  const float saturation = factor(most.saturation);
  const double hue = random.uniform(-most.hue, most.hue);
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  for (const int property : order) {
    if (property == 0 && most.brightness > 0) adjust_brightness(picture, brightness);
    if (property == 1 && most.contrast > 0) adjust_contrast(picture, contrast);
    if (property == 2 && most.saturation > 0) adjust_saturation(picture, saturation);
    if (property == 3 && most.hue > 0) adjust_hue(picture, hue);
  }
}

}  // namespace

Transform random_hsv(const HsvGains& gains) {
  return {.text = "hsv:" + short_text(gains.hue) + "," + short_text(gains.saturation) + "," + short_text(gains.value),
          .apply = [gains](const data::SampleKey& key, Image& picture, Annotation& /*annotation*/, Image& /*scratch*/) {
            data::Random random = data::random_of(key, data::RandomStream::hsv);
            const auto factor = [&random](double gain) {
              return static_cast<float>(random.uniform(1 - gain, 1 + gain));
            };
            const float hue = factor(gains.hue);
            const float saturation = factor(gains.saturation);
            scale_hsv(picture, hue, saturation, factor(gains.value));
          }};
}

Transform color_jitter(const ColorJitter& most) {
  return {.text = "color-jitter:" + short_text(most.brightness) + "," + short_text(most.contrast) + "," +
                  short_text(most.saturation) + "," + short_text(most.hue),
          .apply = [most](const data::SampleKey& key, Image& picture, Annotation& /*annotation*/, Image& /*scratch*/) {
            jitter(most, key, picture);
          }};
}

}  // namespace lockstep::vision
