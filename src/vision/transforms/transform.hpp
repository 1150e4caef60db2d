// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"
#include "vision/image/image.hpp"
#include "vision/source/source.hpp"

namespace lockstep::vision {

/// A change of a picture together with its annotation. What it draws depends on the key only, never on the rank or the
/// thread.
struct Transform {
  std::string text;  ///< as --augment takes it: "flip", "random-resized-crop:224"
  /// @param picture, annotation  changed in place; the boxes stay in pixels of the picture
  /// @param scratch  memory that is used again and again, for a picture that takes the place of the first
  std::function<void(const data::SampleKey& key, Image& picture, Annotation& annotation, Image& scratch)> apply;
};

}  // namespace lockstep::vision
