// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/line_texts.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/characters.hpp"

namespace lockstep::fuzz {
namespace {

void parse_texts_of_lines(const std::string& input) {
  std::vector<vision::LineText> lines;
  try {
    lines = vision::parse_line_texts(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  std::int64_t before = 0;
  for (const vision::LineText& line : lines) {
    require(!line.path.empty(), "a line without a picture");
    require(line.text.find_first_of("\t\n") == std::string::npos, "a text over a border");
    require(vision::is_utf8(line.text), "a text that is not UTF-8");
    require(line.line > before, "lines out of order");
    before = line.line;
    std::string_view rest = line.text;
    std::int64_t characters = 0;
    while (!vision::next_character(rest).empty()) ++characters;
    require(characters == vision::length_of(line.text), "another length");
  }
}

const Registration line_texts("line_texts", parse_texts_of_lines);

}  // namespace
}  // namespace lockstep::fuzz
