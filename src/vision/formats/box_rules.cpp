// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/box_rules.hpp"

namespace lockstep::vision {

BoxFit fit_of(const Box& box, const Annotation& picture) {
  constexpr float rounding = 1;  // pixels
  if (!(box.right > box.left && box.bottom > box.top)) return BoxFit::without_area;
  if (picture.width <= 0 || picture.height <= 0) return BoxFit::inside;
  const auto width = static_cast<float>(picture.width);
  const auto height = static_cast<float>(picture.height);
  if (box.right <= 0 || box.bottom <= 0 || box.left >= width || box.top >= height) return BoxFit::outside;
  const bool reaches_out =
      box.left < -rounding || box.top < -rounding || box.right > width + rounding || box.bottom > height + rounding;
  return reaches_out ? BoxFit::reaches_out : BoxFit::inside;
}

}  // namespace lockstep::vision
