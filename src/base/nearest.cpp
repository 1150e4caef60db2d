// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.hpp"

#include <utility>

namespace lockstep {
namespace {

/// Returns the number of insertions, deletions, replacements and swaps of neighbors that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // rows[i % 3][j] is the distance between the first i characters of a and the first j of b.
  std::vector<std::vector<std::size_t>> rows(3, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    std::vector<std::size_t>& row = rows[i % 3];
    const std::vector<std::size_t>& above = rows[(i + 2) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      if (i == 0) {
        row[j] = j;
        continue;
      }
      row[j] = std::min({above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

/// Returns the first character of a text, and how many bytes it has. The character is '?' for a control character, for
/// a byte that begins no UTF-8 character, and for a character that changes the order or the lines of those around it.
std::pair<char32_t, std::size_t> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t bytes = byte(0) < 0x80                     ? 1
                            : byte(0) < 0xc2 || byte(0) > 0xf4 ? 0
                            : byte(0) < 0xe0                   ? 2
                            : byte(0) < 0xf0                   ? 3
                                                               : 4;
  if (bytes == 0 || bytes > text.size()) return {U'?', 1};
  char32_t code = bytes == 1 ? byte(0) : byte(0) & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {U'?', 1};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool is_overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (is_overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {U'?', 1};
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);  // some terminals obey U+009B as they do ESC [
  const bool moves_others =
      code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return {is_control || moves_others ? U'?' : code, bytes};
}

}  // namespace

std::string echo(std::string_view text, std::size_t most) {
  std::string result;
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    const std::string_view character = code == U'?' ? "?" : text.substr(0, bytes);
    if (result.size() + character.size() > most) return result + "…";
    result += character;
    text.remove_prefix(bytes);
  }
  return result;
}

std::string echo_lines(std::string_view text) {
  std::string result;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += echo(text.substr(0, end), std::string::npos);
    if (end == text.size()) return result;
    result += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string nearest(std::string_view word, std::span<const std::string_view> words) {
  constexpr std::size_t longest = 64;  // no word is longer; the distance from a longer one would only cost time
  constexpr std::size_t shortest = 4;  // in shorter words one letter makes another word: gpu, cpu
  if (word.empty() || word.size() > longest) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : words) {
    const auto [fewer, more] = std::minmax({word.size(), candidate.size()});
    if (more - fewer >= best_distance) continue;  // as many insertions or deletions are needed
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && std::max(word.size(), candidate.size()) >= shortest) {
      best = candidate;
      best_distance = distance;
    }
  }
  const auto begins = [&](std::string_view candidate) { return word.size() > 2 && candidate.starts_with(word); };
  const bool is_typing_error = best_distance <= 1;
  if (!is_typing_error && std::count_if(words.begin(), words.end(), begins) == 1) {
    return std::string(*std::find_if(words.begin(), words.end(), begins));
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> words, std::string_view dashes) {
  const std::string near = nearest(word, words);
  return near.empty() ? "" : "; did you mean '" + std::string(dashes) + near + "'?";
}

std::string unknown(std::string_view what, std::string_view word, std::span<const std::string_view> known) {
  std::string text = "there is no " + std::string(what) + " '" + echo(word) + '\'';
  if (known.empty()) return text;
  const std::string meant = did_you_mean(word, known);
  text += (meant.empty() ? ";" : meant) + (meant.empty() ? " there are " : " There are ");
  for (const std::string_view& name : known) text += (&name == known.data() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace lockstep
