// SPDX-License-Identifier: Apache-2.0
#include "base/wrapped.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace lockstep {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

/// Returns where to break a line that is too long: behind the last word that fits, or else behind the first word;
/// `npos` if there is no such position.
std::size_t end_of_line(std::string_view text, std::size_t columns, std::size_t indent) {
  std::size_t best = std::string_view::npos;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool space = text[i] == ' ';
    const bool comma = text[i] == ',' && i + 1 < text.size() && text[i + 1] != ' ';
    const std::size_t used = column + (comma ? 1 : 0);
    column += begins_character(text[i]) ? 1 : 0;
    if ((!space && !comma) || used <= indent) continue;
    if (used > columns && best != std::string_view::npos) return best;
    best = i + (comma ? 1 : 0);
    if (used > columns) return best;
  }
  return best;
}

}  // namespace

std::string format_text(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), ' ');
  va_start(values, format);
  std::vsnprintf(text.data(), text.size() + 1, format, values);
  va_end(values);
  return text;
}

std::string mib_text(Bytes bytes) { return format_text("%.1f MiB", static_cast<double>(bytes.value) / (1 << 20)); }

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string padded(std::string_view text, std::size_t columns) {
  const std::size_t shown = columns_of(text);
  return std::string(text) + std::string(shown < columns ? columns - shown : 0, ' ');
}

std::string wrapped(std::string_view line, std::size_t columns, std::size_t indent) {
  std::string lines;
  std::string rest(line);
  while (columns_of(rest) > columns) {
    const std::size_t end = end_of_line(rest, columns, indent);
    const std::size_t next = end == std::string::npos ? end : rest.find_first_not_of(' ', end);
    if (next == std::string::npos) break;
    lines += rest.substr(0, rest.find_last_not_of(' ', end - 1) + 1) + '\n';
    rest = std::string(indent, ' ') + rest.substr(next);
  }
  return lines + rest + '\n';
}

}  // namespace lockstep
