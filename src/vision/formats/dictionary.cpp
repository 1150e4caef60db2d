// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/dictionary.hpp"

#include <algorithm>
#include <map>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr std::string_view usual_characters = "0123456789abcdefghijklmnopqrstuvwxyz";

std::vector<std::string> usual_names() {
  std::vector<std::string> names;
  for (const char character : usual_characters) names.emplace_back(1, character);
  return names;
}

/// Whether the names of a model's classes are characters.
bool are_characters(const std::vector<std::string>& names) {
  return !names.empty() && std::ranges::all_of(names, [](const std::string& name) { return length_of(name) == 1; });
}

std::vector<std::string> names_of(const SourceOptions& options) {
  if (are_characters(options.class_names)) return options.class_names;
  const std::filesystem::path& file = options.texts.dictionary;
  std::vector<std::string> names = file.empty() ? usual_names() : parse_dictionary(read_lines_of(file), file.string());
  if (options.texts.has_space && std::ranges::find(names, " ") == names.end()) names.emplace_back(" ");
  return names;
}

/// Whether texts are lower-cased, because the characters are the usual ones and no file has named them.
bool is_usual(const std::vector<std::string>& names, const SourceOptions& options) {
  std::vector<std::string> usual = usual_names();
  if (names.back() == " ") usual.emplace_back(" ");
  return options.texts.dictionary.empty() && names == usual;
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

}  // namespace

std::vector<std::string> parse_dictionary(std::string_view text, const std::string& file) {
  std::vector<std::string> names;
  std::map<std::string_view, std::int64_t> lines_of_characters;
  TextLines lines(text, file, TextLines::Blanks::kept);
  for (TextLine line; lines.next(line);) {
    std::string_view rest = line.text;
    const std::string_view character = next_character(rest);
    if (character.empty() || !rest.empty())
      refuse_line(file, line.number,
                  "'" + echo(line.text) + "' is not one character in UTF-8; a dictionary has one on each line");
    const auto [first, is_new] = lines_of_characters.emplace(character, line.number);
    if (!is_new)
      refuse_line(file, line.number,
                  "the character '" + echo(character) + "' stands on line " + std::to_string(first->second) +
                      ", too; leave one of them out");
    names.emplace_back(character);
    if (std::ssize(names) > most_class_count)
      refuse_line(file, line.number, "there are more than " + std::to_string(most_class_count) + " characters");
  }
  if (names.empty()) throw Error(ErrorCode::corrupt, shown(file) + " has no characters; write one on each line");
  return names;
}

Dictionary::Dictionary(const SourceOptions& options)
    : names_(names_of(options)), labels_(names_), lowers_(is_usual(names_, options)), longest_(options.texts.longest) {}

std::string Dictionary::readable(std::string_view text, const std::string& place, PartNotes& notes) const {
  if (length_of(text) > longest_) {
    notes.long_texts.add(place);
    return {};
  }
  const std::string lower = lowers_ ? lowered(text) : std::string(text);
  std::string known;
  std::string_view rest = lower;
  for (std::string_view character = next_character(rest); !character.empty(); character = next_character(rest)) {
    if (labels_.label(character) >= 0) {
      known += character;
    } else {
      notes.unknown_characters[std::string(character)].add(place);
    }
  }
  if (known.empty()) notes.empty_texts.add(place);
  return known;
}

}  // namespace lockstep::vision
