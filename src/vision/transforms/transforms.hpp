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
/// Resizes the picture by a factor that is drawn from `least` to `most`, and keeps its ratio.
Transform random_scale(double least, double most);
/// Cuts a random part of this size out of the picture. A picture that is smaller is surrounded by gray (127) on the
/// right and below first.
Transform random_crop(Size size);
/// Resizes the picture so that its shorter side has `side` pixels, and keeps its ratio.
Transform resize_shorter_side(int side);
/// Resizes the picture to this size, whatever its ratio.
Transform resize_to(Size size);
/// Resizes the picture so that it fits into this size, and fills the rest with gray (114) at both sides of it.
Transform letterbox(Size size);
/// Resizes the picture so that it fits into `fit`, and fills the rest of `size` with gray at both sides of it.
Transform letterbox(Size size, Size fit);
/// Cuts out the middle of the picture; a smaller one is surrounded by zeros first.
Transform center_crop(Size size);

/// What is on the right of a line of text that is narrower than the network's input.
enum class LineEnd {
  zeros,        ///< after normalization, as in PaddleOCR
  last_column,  ///< again and again, as in EasyOCR
};
/// Returns the width of the picture of a line of text that is resized to a height: rounded up as PaddleOCR does, or
/// down as EasyOCR does for pictures that are not higher than wide. At least 1.
int width_of_line(const Size& picture, int height, LineEnd end);
/// Returns the width of the input for such a picture alone: its own, or, as EasyOCR has it, the ratio of its longer to
/// its shorter side, rounded up, times the height.
int input_width_of_line(const Size& picture, int height, LineEnd end);
/// Resizes the picture of a line of text to the height of this size and the width that keeps its ratio, or that of this
/// size if it is too wide, by resize_bilinear(). EasyOCR's way for pictures that are higher than wide is to resize them
/// to the width of this height first, and then by resize_bicubic(). Without zeros at its end it has the whole size
/// then.
/// @source PaddleOCR's RecResizeImg; EasyOCR's recognition
Transform fit_line(Size size, LineEnd end);

/// The most that colors change: factors are drawn from 1 − x … 1 + x, not below 0.
struct ColorJitter {
  double brightness = 0.4;
  double contrast = 0.4;
  double saturation = 0.4;
  double hue = 0.1;  ///< part of the color circle, up to 0.5
};
/// Changes brightness, contrast, saturation and hue by random amounts, in random order.
Transform color_jitter(const ColorJitter& most);

/// Gains of hue, saturation and value.
struct HsvGains {
  double hue = 0.015;
  double saturation = 0.7;
  double value = 0.4;
};
/// Multiplies hue, saturation and value of all pixels by factors that are drawn from 1 − gain … 1 + gain.
/// @source YOLOv5's augmentation
Transform random_hsv(const HsvGains& gains);

/// Makes one picture of four with this probability: a canvas of twice the size, filled with gray (114), whose quarters
/// meet at a point that is drawn from its middle half in both directions. In each of them lies a picture with a corner
/// at that point: the sample's own one in a quarter that is drawn, and three others, which are drawn from all samples.
/// Each is resized as letterbox() does it, and cut at the edges of the canvas, with its boxes. A picture that is not
/// part of four is letterboxed. It has no frame (`Frame::width` is 0), and a label, mask or text is that of the sample
/// itself, or none.
/// @source Bochkovskiy et al., YOLOv4, 2020; as YOLOv5 draws it
/// @cost only what the next transform looks at is loaded and resized
Transform mosaic(Size size, double probability);

/// The most that a picture is changed by affine(): the scale is drawn from 1 − x … 1 + x, moves to both sides are parts
/// of the size, and angles are in degrees.
struct AffineRange {
  double scale = 0.5;
  double translate = 0.1;
  double degrees = 0;
  double shear = 0;
};
/// Turns, scales and shears a picture around its middle, which moves to the middle of the result or near it, in one
/// bilinear interpolation without antialiasing. What lies beyond the picture is gray (114). Boxes get the edges of
/// their turned corners and are clipped. Those are kept that are wider and higher than 2 pixels, have more than a tenth
/// of their area before (in pixels of the result), and a ratio of sides below 100.
/// @source as YOLOv5's random_perspective without perspective
Transform random_affine(Size size, const AffineRange& most);

}  // namespace lockstep::vision
