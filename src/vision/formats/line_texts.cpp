// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/line_texts.hpp"

#include "base/nearest.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/characters.hpp"

namespace lockstep::vision {

std::vector<LineText> parse_line_texts(std::string_view text, const std::string& file) {
  std::vector<LineText> all;
  TextLines lines(text, file, TextLines::Blanks::kept);
  for (TextLine line; lines.next(line);) {
    const std::size_t tab = line.text.find('\t');
    if (tab == std::string_view::npos || tab == 0)
      refuse_line(file, line.number,
                  "'" + echo(line.text) + "' is no picture and text; a line is a path, a tab, and the text");
    const std::string_view written = line.text.substr(tab + 1);
    if (written.find('\t') != std::string_view::npos)
      refuse_line(file, line.number, "'" + echo(line.text) + "' has a second tab; write a space in the text");
    if (!is_utf8(written))
      refuse_line(file, line.number, "'" + echo(written) + "' is not UTF-8; save the file in this encoding");
    all.push_back({std::string(line.text.substr(0, tab)), std::string(written), line.number});
  }
  return all;
}

}  // namespace lockstep::vision
