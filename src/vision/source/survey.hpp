// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// How often something was met, and where first.
struct Finding {
  std::int64_t count = 0;
  std::string first;

  void add(const std::string& where) {
    if (count++ == 0) first = where;
  }
};

/// What the user should know about the files of a part, beside its samples.
struct PartNotes {
  std::map<std::string, Finding> refused;  ///< pictures left out, by the kind that their suffix stands for: "WebP"
  Finding without_annotation;              ///< pictures left out
  Finding without_picture;                 ///< labels and annotations left out
  Finding duplicates;                      ///< samples with the path of an earlier one; they are kept
  Finding duplicate_boxes;                 ///< boxes equal to an earlier one of the picture; they are kept
  Finding repeated_boxes;                  ///< the same in formats that do not keep them
  Finding degenerate_boxes;                ///< boxes without area, left out
  Finding lost_boxes;                      ///< boxes that lie outside of their picture, left out
  Finding wide_boxes;                      ///< boxes that reach beyond their picture; they are kept
  Finding training_crowds;                 ///< boxes of crowds in the training part, left out
  Finding without_labels;                  ///< pictures without a file of labels, which are background
  Finding empty_texts;                     ///< texts without a known character, left out with their pictures
  Finding long_texts;                      ///< texts that are too long, left out with their pictures
  std::map<std::string, Finding> unknown_characters;  ///< left out of their texts, by character
  Finding without_header;  ///< pictures whose size cannot be read; they are kept without boxes
};

/// Numbers of samples and boxes of one part.
struct PartSurvey {
  std::int64_t samples = 0;
  std::int64_t boxes = 0;
  std::array<std::int64_t, 3> sizes{};     ///< of the boxes: small, medium and large ones
  std::int64_t difficult = 0;              ///< of the boxes
  std::int64_t crowds = 0;                 ///< boxes that stand for many objects; they count nowhere else
  std::int64_t without_boxes = 0;          ///< samples, where others have boxes
  std::int64_t masks = 0;                  ///< samples with a file of a mask, whose pixels are not counted
  std::int64_t texts = 0;                  ///< samples with a text
  std::vector<std::int64_t> class_counts;  ///< by label: samples, or boxes or characters where there are any
  PartNotes notes;
};

/// What was found where data were opened, for one table before training.
struct Survey {
  std::string format;
  std::string place;  ///< the folder or file of the data
  std::vector<std::string> class_names;
  std::optional<PartSurvey> train;
  std::optional<PartSurvey> val;
  Finding in_both;  ///< samples of the validation part that are training samples, too
};

/// The areas at which COCO's evaluation lets medium and large objects begin, in pixels.
inline constexpr double medium_area = 32 * 32;
inline constexpr double large_area = 96 * 96;

/// Counts the samples of a part. @cost looks at every annotation
PartSurvey survey_of(const Source& part, PartNotes notes);

/// Returns the table, as lines of at most about 100 columns. Long lists of classes are shortened to the first, the last
/// and the smallest ones.
std::string text_of(const Survey& survey);

}  // namespace lockstep::vision
