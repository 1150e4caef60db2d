// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/text_lines.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <system_error>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";

std::string_view without_blanks_at_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(blanks);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string_view without_line_end(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string_view without_blanks(std::string_view text) {
  text = without_blanks_at_end(text);
  return text.substr(std::min(text.find_first_not_of(blanks), text.size()));
}

/// Reads a whole number that is all of a text. @return whether it is one
bool read_number(std::string_view text, std::int64_t& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

std::int32_t label_of(std::string_view text, const std::string& file, std::int64_t line) {
  std::int64_t label = 0;
  if (!read_number(text, label))
    refuse_line(file, line,
                "'" + echo(text) + "' is no label; a line is a path, a space or tab, and the number of a class");
  if (label < 0 || label >= most_class_count)
    refuse_line(file, line,
                "the label " + echo(text) + " is no class; classes are numbered from 0 to at most " +
                    std::to_string(most_class_count - 1));
  return static_cast<std::int32_t>(label);
}

/// A name with its place among the classes.
struct NamedLine {
  std::string_view name;
  std::int64_t number = 0;
  std::int64_t line = 0;
};

bool begins_with_number(std::string_view line) {
  std::int64_t ignored = 0;
  const std::size_t blank = line.find_first_of(" \t");
  return blank != std::string_view::npos && read_number(line.substr(0, blank), ignored);
}

/// @param place  the number of the class unless the line says it
NamedLine named_line(const TextLine& line, bool is_numbered, std::int64_t place, const std::string& file) {
  if (!is_numbered) return {without_blanks(line.text), place, line.number};
  const std::size_t blank = line.text.find_first_of(" \t");
  NamedLine result{.line = line.number};
  if (blank == std::string_view::npos || !read_number(line.text.substr(0, blank), result.number))
    refuse_line(file, line.number,
                "'" + echo(line.text) +
                    "' has no number, as the first line has; write NUMBER NAME on every line, or "
                    "a name only");
  result.name = without_blanks(line.text.substr(blank));
  return result;
}

/// Checks that neighbors in this order have different values of a member.
template <typename Member>
void require_distinct(std::vector<const NamedLine*>& lines, Member member, const std::string& what,
                      const std::string& file) {
  std::sort(lines.begin(), lines.end(), [&](const NamedLine* a, const NamedLine* b) {
    return a->*member != b->*member ? a->*member < b->*member : a->line < b->line;
  });
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i]->*member == lines[i - 1]->*member)
      refuse_line(
          file, lines[i]->line,
          "this " + what + " stands on line " + std::to_string(lines[i - 1]->line) + ", too; each class has one");
}

}  // namespace

TextLines::TextLines(std::string_view text, const std::string& file, Blanks blanks) : rest_(text), blanks_(blanks) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw Error(ErrorCode::corrupt, shown(file) + " is a text in UTF-16; save it as UTF-8");
  if (text.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
}

bool TextLines::next(TextLine& line) {
  while (!rest_.empty()) {
    const std::size_t length = std::min(rest_.find('\n'), rest_.size());
    const std::string_view whole = rest_.substr(0, length);
    line = {blanks_ == Blanks::dropped ? without_blanks_at_end(whole) : without_line_end(whole), ++number_};
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
    if (!line.text.empty()) return true;
  }
  return false;
}

std::string read_lines_of(const std::filesystem::path& path) {
  constexpr std::size_t most = std::size_t{2} << 30;
  return read_text(path.string(), most);
}

void refuse_line(const std::string& file, std::int64_t line, const std::string& what) {
  throw Error(ErrorCode::corrupt, shown(file) + ':' + std::to_string(line) + ": " + what);
}

std::vector<ListLine> parse_list(std::string_view text, const std::string& file) {
  std::vector<ListLine> list;
  TextLines lines(text, file);
  for (TextLine line; lines.next(line);) {
    const std::size_t separator = line.text.find_last_of(" \t");
    const std::string_view path =
        separator == std::string_view::npos ? "" : without_blanks_at_end(line.text.substr(0, separator));
    if (path.empty())
      refuse_line(
          file, line.number,
          "'" + echo(line.text) + "' has no label; a line is a path, a space or tab, and the number of a class");
    list.push_back({std::string(path), label_of(line.text.substr(separator + 1), file, line.number), line.number});
  }
  return list;
}

std::vector<std::string> parse_class_names(std::string_view text, const std::string& file) {
  std::vector<NamedLine> named;
  bool is_numbered = false;
  TextLines lines(text, file);
  for (TextLine line; lines.next(line);) {
    if (named.empty()) is_numbered = begins_with_number(line.text);
    named.push_back(named_line(line, is_numbered, static_cast<std::int64_t>(named.size()), file));
    if (std::ssize(named) > most_class_count)
      refuse_line(file, line.number, "there are more than " + std::to_string(most_class_count) + " classes");
  }
  if (named.empty()) throw Error(ErrorCode::corrupt, shown(file) + " names no class");
  std::vector<const NamedLine*> order(named.size());
  std::transform(named.begin(), named.end(), order.begin(), [](const NamedLine& line) { return &line; });
  require_distinct(order, &NamedLine::name, "name", file);
  require_distinct(order, &NamedLine::number, "number", file);
  std::vector<std::string> names(named.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->number != static_cast<std::int64_t>(i))
      refuse_line(file, order[i]->line,
                  "the class " + std::to_string(i) + " has no name; number the classes from 0 without gaps");
    names[i] = order[i]->name;
  }
  return names;
}

}  // namespace lockstep::vision
