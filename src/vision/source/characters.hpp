// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::vision {

/// Takes the next character, a code point, from the front of a text in UTF-8.
/// @return its bytes; empty at the end of the text, and where the bytes are not UTF-8, which are left then
std::string_view next_character(std::string_view& text);

/// Whether a text is UTF-8.
bool is_utf8(std::string_view text);

/// The number of characters of a text in UTF-8.
std::int64_t length_of(std::string_view text);

/// Finds the class of a character by its name. Looking up does not allocate.
class CharacterLabels {
 public:
  /// @param class_names  of texts, which are the characters
  explicit CharacterLabels(std::vector<std::string> class_names);
  /// Returns the class of a character; −1 if there is none.
  [[nodiscard]] std::int32_t label(std::string_view character) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::int32_t> labels_;  // over the memory of `names_`
};

}  // namespace lockstep::vision
