// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// A picture and its mask, relative to a folder.
struct MaskPair {
  std::string picture;
  std::string mask;
};

/// Reads a list of pictures and masks: a line is the path of a picture, a space, and the path of its mask. With a tab
/// between them, both paths may have spaces.
/// @param file  the name of the list, for errors
/// @throws Error{corrupt} for a line without a mask; it names the file and the line
std::vector<MaskPair> parse_mask_list(std::string_view text, const std::string& file);

}  // namespace lockstep::vision
