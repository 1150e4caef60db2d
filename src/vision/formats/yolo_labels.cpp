// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/yolo_labels.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>

#include "base/nearest.hpp"
#include "vision/formats/text_lines.hpp"

namespace lockstep::vision {
namespace {

constexpr const char* usual_form = "a line is `class x y width height`, or `class x1 y1 x2 y2 x3 y3 …` for a polygon";

/// Reads the numbers of a line, which spaces or tabs separate.
class NumberedLine {
 public:
  NumberedLine(const TextLine& line, const std::string& file) : line_(line), file_(file) {
    constexpr std::string_view blanks_between = " \t\r\v\f";
    std::string_view rest = line.text;
    while (true) {
      rest.remove_prefix(std::min(rest.find_first_not_of(blanks_between), rest.size()));
      if (rest.empty()) return;
      const std::string_view word = rest.substr(0, rest.find_first_of(blanks_between));
      numbers_.push_back(number_of(word));
      rest.remove_prefix(word.size());
    }
  }

  [[nodiscard]] const std::vector<double>& numbers() const { return numbers_; }
  [[noreturn]] void refuse(const std::string& what) const { refuse_line(file_, line_.number, what); }

 private:
  [[nodiscard]] double number_of(std::string_view word) const {
    constexpr double most = 1e7;  // the negated comparison refuses NaN
    double number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size() || !(std::abs(number) < most))
      refuse("'" + echo(word, 40) + "' is no number; " + usual_form);
    return number;
  }

  TextLine line_;
  const std::string& file_;
  std::vector<double> numbers_;
};

std::int32_t class_of(const NumberedLine& line, std::size_t classes) {
  const double number = line.numbers().front();
  if (number < 0 || number != std::floor(number))
    line.refuse("a line begins with the number of a class, from 0; " + std::string(usual_form));
  if (number >= static_cast<double>(classes))
    line.refuse("the class " + std::to_string(static_cast<std::int64_t>(number)) + " is none of the " +
                std::to_string(classes) + " classes, which are numbered from 0; name all classes");
  return static_cast<std::int32_t>(number);
}

/// The box around the points of a polygon: center, width and height.
std::array<double, 4> box_around(const std::vector<double>& numbers) {
  std::array<double, 2> low = {numbers[1], numbers[2]};
  std::array<double, 2> high = low;
  for (std::size_t i = 3; i + 1 < numbers.size(); i += 2)
    for (std::size_t axis = 0; axis < 2; ++axis) {
      low[axis] = std::min(low[axis], numbers[i + axis]);
      high[axis] = std::max(high[axis], numbers[i + axis]);
    }
  return {(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, high[0] - low[0], high[1] - low[1]};
}

std::array<double, 4> extents_of(const NumberedLine& line) {
  const std::vector<double>& numbers = line.numbers();
  const std::size_t count = numbers.size();
  if (count < 5 || count % 2 == 0)
    line.refuse((count == 1 ? "there is 1 number; " : "there are " + std::to_string(count) + " numbers; ") +
                std::string(usual_form) + (count == 6 ? ", without a confidence" : ""));
  const std::array<double, 4> box =
      count == 5 ? std::array{numbers[1], numbers[2], numbers[3], numbers[4]} : box_around(numbers);
  const std::array<const char*, 4> names = {"x", "y", "width", "height"};
  for (std::size_t i = 0; i < box.size(); ++i)
    if (box[i] < 0 || box[i] > 1)
      line.refuse("the " + std::string(names[i]) + ' ' + echo(std::to_string(box[i]), 40) +
                  " is no fraction of the picture, from 0 to 1; divide pixels by its width or height");
  return box;
}

}  // namespace

YoloLabels parse_yolo_labels(std::string_view text, const std::string& file, std::size_t classes) {
  YoloLabels labels;
  std::set<std::array<double, 5>> seen;
  TextLines lines(text, file);
  for (TextLine line; lines.next(line);) {
    const NumberedLine numbered(line, file);
    const std::int32_t label = class_of(numbered, classes);
    const auto [x, y, width, height] = extents_of(numbered);
    if (seen.insert({static_cast<double>(label), x, y, width, height}).second) {
      labels.boxes.push_back({label, x, y, width, height, line.number});
    } else {
      labels.repeated.push_back(line.number);
    }
  }
  return labels;
}

}  // namespace lockstep::vision
