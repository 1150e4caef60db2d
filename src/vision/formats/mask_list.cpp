// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/mask_list.hpp"

#include "base/nearest.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

std::vector<MaskPair> parse_mask_list(std::string_view text, const std::string& file) {
  std::vector<MaskPair> pairs;
  TextLines lines(text, file);
  for (TextLine line; lines.next(line);) {
    const std::size_t tab = line.text.find('\t');
    const std::size_t separator = tab == std::string_view::npos ? line.text.rfind(' ') : tab;
    const std::size_t end = line.text.find_last_not_of(" \t", separator);
    if (separator == std::string_view::npos || end == std::string_view::npos)
      refuse_line(
          file, line.number,
          "'" + echo(line.text) + "' has no mask; a line is the path of a picture, a space, and that of its mask");
    const std::string_view picture = line.text.substr(0, end + 1);
    const std::string_view mask = line.text.substr(separator + 1);
    if (!has_picture_suffix(mask)) refuse_line(file, line.number, "'" + echo(mask) + "' is no mask, which is a PNG");
    pairs.push_back({std::string(picture), std::string(mask)});
  }
  return pairs;
}

}  // namespace lockstep::vision
