// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// A picture of a line of text, and the text.
struct LineText {
  std::string path;  ///< relative to a folder, or absolute
  std::string text;  ///< in UTF-8; it may be empty, and have spaces at its ends
  std::int64_t line = 0;
};

/// Reads a list of pictures and their texts: a line is the path of a picture, a tab, and the text in UTF-8.
/// @param file  for messages
/// @throws Error{corrupt} for a line without path or tab, with two tabs, or whose text is not UTF-8; it names the file
///         and the line
std::vector<LineText> parse_line_texts(std::string_view text, const std::string& file);

}  // namespace lockstep::vision
