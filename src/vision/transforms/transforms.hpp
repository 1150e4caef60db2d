// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/transforms/transform.hpp"

/// The transforms, each a value. Each draws from numbers of its own, so that adding one does not change what another
/// draws. Sizes that are rounded are rounded as torchvision rounds them.
namespace lockstep::vision {

/// Width and height in pixels.
struct Size {
  int width = 0;
  int height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

/// Cuts a picture out of itself with a border of zeros: it moves by up to `border` pixels in both directions. It draws
/// what data::augmented() draws.
Transform pad_and_crop(int border);
/// Mirrors half of the pictures, left to right. It draws what data::augmented() draws.
Transform random_flip();
/// Resizes a random part of the picture: 8 % to 100 % of its area, with a ratio of width to height between 3/4 and 4/3.
/// If ten draws do not fit into the picture, the part is its middle, with the nearest ratio in that range.
/// @source torchvision's RandomResizedCrop; Szegedy et al., Going deeper with convolutions, CVPR 2015
Transform random_resized_crop(Size size);
/// Resizes the picture so that its shorter side has `side` pixels, and keeps its ratio.
Transform resize_shorter_side(int side);
/// Resizes the picture to this size, whatever its ratio.
Transform resize_to(Size size);
/// Resizes the picture so that it fits into this size, and fills the rest with gray (114) at both sides of it.
Transform letterbox(Size size);
/// Cuts out the middle of the picture; a smaller one is surrounded by zeros first.
Transform center_crop(Size size);

/// The most that colors change: factors are drawn from 1 − x … 1 + x, not below 0.
struct ColorJitter {
  double brightness = 0.4;
  double contrast = 0.4;
  double saturation = 0.4;
  double hue = 0.1;  ///< part of the color circle, up to 0.5
};
/// Changes brightness, contrast, saturation and hue by random amounts, in random order.
Transform color_jitter(const ColorJitter& most);

}  // namespace lockstep::vision
