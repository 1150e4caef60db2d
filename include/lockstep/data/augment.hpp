// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Random changes of training images.
struct Augmentation {
  /// Each image is moved by −4 … 4 rows and columns, all equally likely: it is cut out of itself with a border of 4
  /// pixels.
  bool crop = false;
  bool flip = false;  ///< half of the images are mirrored, left to right

  [[nodiscard]] bool changes_images() const { return crop || flip; }
  /// Returns "crop", "flip", "crop,flip" or "none".
  [[nodiscard]] std::string text() const;
};

/// Returns a data set with augmented images. What is drawn for a sample depends on its key only, and is the same for
/// bytes and for real numbers. The border is the byte 0, or the number that it stands for; without bytes it is 0.
/// @throws Error{invalid_argument} unless there are "images" and every other tensor is one integer, a label, because
///         masks, boxes and words would no longer fit the images
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset, const Augmentation& augmentation);

}  // namespace lockstep::data
