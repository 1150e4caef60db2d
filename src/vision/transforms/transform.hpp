// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"
#include "vision/image/image.hpp"
#include "vision/image/resize.hpp"
#include "vision/source/source.hpp"

namespace lockstep::vision {

/// A picture with its annotation in the pixels that it has. It is a view.
struct LoadedSample {
  const Image* picture = nullptr;
  const Annotation* annotation = nullptr;
};

/// The samples of a data set, for a transform that makes one picture of several.
class Samples {
 public:
  virtual ~Samples() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Loads a sample as the data set decodes it, or the one that takes its place if it is bad.
  /// @return valid until the next call
  /// @throws Error{io}; Error{corrupt} if the sample is bad and nothing takes its place
  virtual LoadedSample load(std::int64_t sample) = 0;
};

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
  double factor = 0;       ///< by which it resizes every picture; 0: by another one for each, or not by a factor
  bool sets_size = false;  ///< whether all pictures have the same size behind it
  /// Whether pictures may be narrower than this size instead, as lines of text. The data set then adds columns of zeros
  /// on the right after normalization, and has the channels blue, green and red in this order, as PaddleOCR.
  bool is_line = false;
  /// In place of `apply`, for a transform that makes one picture of several samples. It is the first one of a list.
  /// @param samples  where the other samples come from
  /// @param next     the transform behind it, which may look at a part of the result only; null: there is none
  std::function<void(const data::SampleKey& key, Samples& samples, const Transform* next, Image& picture,
                     Annotation& annotation, Image& scratch)>
      compose = {};
  /// Returns the part of a picture of this width and height that the transform looks at, which may be empty. The other
  /// pixels may have any values. Empty: it looks at all of them.
  std::function<Region(const data::SampleKey& key, int width, int height)> seen = {};
};

/// The shorter side that pictures need when they are decoded for these transforms; 0: all their pixels. It follows from
/// the transforms only, so decoded pixels do not depend on what a transform draws.
int needed_side(std::span<const Transform> transforms);

/// Whether all pictures have the same size behind these transforms.
bool set_size(std::span<const Transform> transforms);

}  // namespace lockstep::vision
