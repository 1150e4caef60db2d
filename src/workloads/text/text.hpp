// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

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

}  // namespace lockstep::workloads
