// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// How texts become the targets of CTC.
struct Characters {
  std::string alphabet;     ///< the characters, by class
  int longest = 1;          ///< most characters of a text
  int pixels_per_step = 4;  ///< columns of a picture for each step of the model
};

/// Writes "targets", the classes of the characters, followed by zeros; "target_lengths", their number; and "steps", the
/// number of steps up to the right edge of the first box, or of the picture if there is none.
/// @pre texts have characters of the alphabet only, at most `longest` of them
std::shared_ptr<const vision::Collate> sequences(const Characters& characters);

/// Writes "targets", 1 + the classes of the characters, followed by zeros, for networks whose class 0 is CTC's blank;
/// and "target_lengths", their number, which is 0 for a sample that is left out.
/// @param class_names  the characters. Others have no place in a text
/// @param longest      most characters of a text
std::shared_ptr<const vision::Collate> character_targets(const std::vector<std::string>& class_names,
                                                         std::int64_t longest);

}  // namespace lockstep::workloads
