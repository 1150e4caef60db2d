// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vision/transforms/transforms.hpp"

/// Lists of transforms: as users write them, and those of workloads.
namespace lockstep::vision {

/// Reads "NAME[:VALUE],…", as --augment takes it: "random-resized-crop,flip,color-jitter:0.4,0.4,0.4,0.1". "none" is an
/// empty list. Transforms are applied in this order, but crop before flip.
/// @param input  size of the network's input, which is the default of transforms that set the size
/// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list; for a value that is missing,
///         out of range or no number; and for a name that occurs twice
std::vector<Transform> parse_transforms(std::string_view text, const Size& input);

/// The transforms in one line, for --help: "crop[:PIXELS], flip, …".
std::string transform_names();

/// The texts of transforms with commas between them; "none" for an empty list.
std::string text_of(const std::vector<Transform>& transforms);

/// The transforms of the two parts of a data set.
struct Pipelines {
  std::vector<Transform> training;
  std::vector<Transform> evaluation;
};

/// The transforms for classification.
///
/// Pictures that all have the size of the input stay as they are, except for `augment`. Of others, training takes a
/// random-resized-crop, and a flip if `augment` is empty; evaluation resizes them, so that the shorter side is the
/// input's divided by 0.875, and crops the center.
/// @param augment    as parse_transforms() takes it. If it does not set the size of the pictures, random-resized-crop
///                   comes first, or, for "none", what evaluation does
/// @param are_equal  whether all pictures have the size of the input
/// @throws Error{invalid_argument} as parse_transforms()
Pipelines classification_pipelines(std::string_view augment, const Size& input, bool are_equal);

/// A size of the network's input in some training steps, with the transforms that bring pictures to it.
struct StepSize {
  Size size;
  std::vector<Transform> transforms;
};

/// The training transforms for steps of another size than the input: those of classification_pipelines() for this size,
/// and what comes out in another one, because the user has named it or nothing sets it, is resized.
StepSize classification_step(std::string_view augment, const Size& size, bool are_equal);

}  // namespace lockstep::vision
