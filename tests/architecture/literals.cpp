// SPDX-License-Identifier: Apache-2.0
#include "architecture/literals.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace lockstep::architecture {
namespace {

bool is_at(std::string_view text, std::size_t at, std::string_view what) {
  return text.substr(at, what.size()) == what;
}

/// Returns the position of the first character, from `at` on, that is neither blank nor in a comment.
std::size_t skip_blanks_and_comments(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_at(text, at, "//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (is_at(text, at, "/*")) {
      at = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    } else if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

/// Returns the position after the quotation mark that matches the one at `at`.
std::size_t end_of_quotation(std::string_view text, std::size_t at) {
  const char mark = text[at++];
  while (at < text.size() && text[at] != mark) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

/// Returns whether a mark is inside a number, as in 1'000.
bool separates_digits(std::string_view text, std::size_t at) {
  return text[at] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1])) != 0;
}

}  // namespace

std::vector<std::string> string_literals(std::string_view source) {
  std::vector<std::string> found;
  bool continues = false;  // whether the next literal continues the last one
  for (std::size_t at = skip_blanks_and_comments(source, 0); at < source.size();
       at = skip_blanks_and_comments(source, at)) {
    const bool is_string = source[at] == '"';
    if (!is_string && (source[at] != '\'' || separates_digits(source, at))) {
      continues = false;
      ++at;
      continue;
    }
    const std::size_t end = end_of_quotation(source, at);
    if (is_string) {
      if (!continues) found.emplace_back();
      found.back() += source.substr(at + 1, end - at - 2);
    }
    continues = is_string;
    at = end;
  }
  return found;
}

std::vector<std::string> flags_in(std::string_view text) {
  std::vector<std::string> found;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '`') is_quoted = !is_quoted;
    const bool begins = is_at(text, at, "--") && (at == 0 || text[at - 1] != '-') && at + 2 < text.size() &&
                        std::isalpha(static_cast<unsigned char>(text[at + 2])) != 0;
    if (!begins || is_quoted) continue;
    const auto is_of_flag = [](char c) { return c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_of_flag);
    found.emplace_back(text.begin() + static_cast<std::ptrdiff_t>(at), end);
  }
  return found;
}

}  // namespace lockstep::architecture
