// SPDX-License-Identifier: Apache-2.0
#include "vision/source/characters.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::vision {
namespace {

/// The characters of more than one byte: how their first byte begins, how long they are, and the least code point, as
/// shorter ones are not written that long.
struct LongForm {
  unsigned char mask;
  unsigned char begin;
  std::size_t bytes;
  std::uint32_t least;
};
constexpr LongForm long_forms[] = {{0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};

bool is_surrogate(std::uint32_t code) { return code >= 0xd800 && code <= 0xdfff; }

/// Returns how many bytes the first character of a text has; 0 if they are not UTF-8.
std::size_t bytes_of_first(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  for (const auto& [mask, begin, bytes, least] : long_forms) {
    if ((byte(0) & mask) != begin || text.size() < bytes) continue;
    std::uint32_t code = byte(0) & static_cast<unsigned char>(~mask);
    for (std::size_t i = 1; i < bytes; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return 0;
      code = code << 6 | (byte(i) & 0x3f);
    }
    return code < least || code > 0x10ffff || is_surrogate(code) ? 0 : bytes;
  }
  return 0;
}

}  // namespace

std::string_view next_character(std::string_view& text) {
  const std::string_view character = text.substr(0, text.empty() ? 0 : bytes_of_first(text));
  text.remove_prefix(character.size());
  return character;
}

bool is_utf8(std::string_view text) {
  while (!next_character(text).empty()) {
  }
  return text.empty();
}

std::int64_t length_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

CharacterLabels::CharacterLabels(std::vector<std::string> class_names) : names_(std::move(class_names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) labels_.emplace(names_[i], static_cast<std::int32_t>(i));
}

std::int32_t CharacterLabels::label(std::string_view character) const {
  const auto found = labels_.find(character);
  return found == labels_.end() ? -1 : found->second;
}

}  // namespace lockstep::vision
