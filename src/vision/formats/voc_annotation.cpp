// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/voc_annotation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "base/nearest.hpp"
#include "vision/formats/text_lines.hpp"

namespace lockstep::vision {
namespace {

/// Converts offsets in a text to numbers of lines, for offsets that grow.
class LineNumbers {
 public:
  explicit LineNumbers(std::string_view text) : text_(text) {}

  std::int64_t at(std::ptrdiff_t offset) {
    const auto end = std::clamp<std::size_t>(offset < 0 ? 0 : static_cast<std::size_t>(offset), counted_, text_.size());
    line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                        text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    counted_ = end;
    return line_;
  }

 private:
  std::string_view text_;
  std::size_t counted_ = 0;
  std::int64_t line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks_of_xml = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks_of_xml);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(blanks_of_xml) - first + 1);
}

/// Reads the number in a child element. Corners may have fractions.
float number_in(const pugi::xml_node& parent, const char* child, const std::string& file, std::int64_t line) {
  const std::string_view text = trimmed(parent.child(child).text().get());
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr double most = 1e7;  // pixels; the negated comparison refuses NaN
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() || !(std::abs(number) < most))
    refuse_line(file, line,
                "the object has no number " + std::string(child) + (text.empty() ? "" : ", but '" + echo(text) + "'"));
  return static_cast<float>(number);
}

VocObject object_of(const pugi::xml_node& object, const std::string& file, std::int64_t line) {
  VocObject result{.name = std::string(trimmed(object.child("name").text().get())), .line = line};
  if (result.name.empty()) refuse_line(file, line, "the object has no name");
  const pugi::xml_node corners = object.child("bndbox");
  if (!corners) refuse_line(file, line, "the object '" + echo(result.name, 40) + "' has no bndbox");
  const float left = number_in(corners, "xmin", file, line);
  const float top = number_in(corners, "ymin", file, line);
  const float right = number_in(corners, "xmax", file, line);
  const float bottom = number_in(corners, "ymax", file, line);
  result.has_area = right > left && bottom > top;
  // VOC counts pixels from 1 and includes the last one. Files that count from 0 have boxes at 0, which begin there.
  result.box = {.left = std::max(left - 1, 0.F),
                .top = std::max(top - 1, 0.F),
                .right = right,
                .bottom = bottom,
                .is_difficult = trimmed(object.child("difficult").text().get()) == "1"};
  return result;
}

}  // namespace

std::vector<VocObject> parse_voc(std::string_view text, const std::string& file) {
  // The parser is iterative and ignores document types, so neither nesting nor entities make it take more than a
  // multiple of the text.
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  LineNumbers lines(text);
  if (!parsed)
    refuse_line(file, lines.at(parsed.offset), "this is no XML that can be read: " + std::string(parsed.description()));
  const pugi::xml_node annotation = document.child("annotation");
  if (!annotation) refuse_line(file, 1, "there is no element annotation");
  std::vector<VocObject> objects;
  for (const pugi::xml_node& object : annotation.children("object"))
    objects.push_back(object_of(object, file, lines.at(object.offset_debug())));
  return objects;
}

}  // namespace lockstep::vision
