// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
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
  /// The shorter side that a decoded picture needs so that the transform loses nothing that would be seen; 0: it needs
  /// all pixels. Empty for a transform that takes pictures of any size and leaves their size as it is.
  std::optional<int> needed_side = {};
  bool sets_size = false;  ///< whether all pictures have the same size behind it
};

/// The shorter side that pictures need when they are decoded for these transforms; 0: all their pixels. It follows from
/// the transforms only, so decoded pixels do not depend on what a transform draws.
int needed_side(std::span<const Transform> transforms);

}  // namespace lockstep::vision
