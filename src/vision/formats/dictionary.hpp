// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vision/formats/sources.hpp"
#include "vision/source/characters.hpp"

namespace lockstep::vision {

/// Reads the characters of a dictionary, one on each line, which may be a space.
/// @param file  for messages
/// @return the characters, which name the classes
/// @throws Error{corrupt} that names file and line for a line that is not one character in UTF-8 or that an earlier one
///         has, or if there are no characters
std::vector<std::string> parse_dictionary(std::string_view text, const std::string& file);

/// The characters that a network of texts knows, and what it can be taught of texts.
class Dictionary {
 public:
  /// Takes the characters of the model that is evaluated, or those of the options' file, or the digits and small
  /// letters, for which texts are lower-cased.
  /// @throws Error{io} if the file cannot be read; as parse_dictionary()
  explicit Dictionary(const SourceOptions& options);

  [[nodiscard]] const std::vector<std::string>& class_names() const { return names_; }

  /// Makes the text of a sample what the network is to read: known characters only.
  /// @param place  of the sample, for the notes
  /// @param notes  gets what was left out
  /// @return the text; empty if the sample is to be left out
  std::string readable(std::string_view text, const std::string& place, PartNotes& notes) const;

 private:
  std::vector<std::string> names_;
  CharacterLabels labels_;
  bool lowers_ = false;
  int longest_ = 0;
};

}  // namespace lockstep::vision
