// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/synthetic/synthetic.hpp"
#include "vision/whole_pictures.hpp"
#include "workloads/detection/detection.hpp"
#include "workloads/segmentation/segmentation.hpp"
#include "workloads/text/text.hpp"

/// Drawn data sets of any size, with the targets that they have in `train`.
namespace lockstep::workloads {

inline data::DatasetPair boxes_set(const vision::SyntheticOptions& options) {
  return vision::whole_pictures(vision::synthetic_boxes(options), cells());
}

inline data::DatasetPair masks_set(const vision::SyntheticOptions& options) {
  return vision::whole_pictures(vision::synthetic_masks(options), pixel_labels());
}

inline data::DatasetPair words_set(const vision::SyntheticOptions& options) {
  return vision::whole_pictures(vision::synthetic_words(options), sequences({.alphabet = "0123456789", .longest = 5}));
}

}  // namespace lockstep::workloads
