// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Text files of users: lists of pictures, names of classes.
namespace lockstep::vision {

/// A line that is not blank, without its end and without spaces at its end.
struct TextLine {
  std::string_view text;
  std::int64_t number = 0;  ///< from 1
};

/// Goes over the lines of a text that are not blank. Lines end with LF or CRLF, the last one may lack its end, and a
/// byte-order mark at the beginning is skipped.
class TextLines {
 public:
  /// What becomes of spaces at the ends of lines. Where they are kept, only lines without any character are skipped.
  enum class Blanks { dropped, kept };
  /// @param file  for messages
  /// @throws Error{corrupt} if the text is UTF-16
  TextLines(std::string_view text, const std::string& file, Blanks blanks = Blanks::dropped);
  /// @return whether there was another line
  bool next(TextLine& line);

 private:
  std::string_view rest_;
  Blanks blanks_;
  std::int64_t number_ = 0;
};

/// Reads a text file of at most 2 GiB. @throws Error{io} as read_text()
std::string read_lines_of(const std::filesystem::path& path);

/// @throws Error{corrupt}: "FILE:LINE: what is wrong"
[[noreturn]] void refuse_line(const std::string& file, std::int64_t line, const std::string& what);

/// A line of a list: a picture and its class.
struct ListLine {
  std::string path;
  std::int32_t label = 0;
  std::int64_t line = 0;
};

/// The largest number of classes that a file may name or use.
inline constexpr std::int64_t most_class_count = 1'000'000;

/// Parses the lines of a list. The label is what follows the last space or tab of a line, so paths may contain spaces.
/// @param file  for messages
/// @throws Error{corrupt} for a line without path or label, or a label that is no number of a class
std::vector<ListLine> parse_list(std::string_view text, const std::string& file);

/// Parses the names of classes: a name on each line, or `NUMBER NAME` on each line, in any order of the numbers from 0,
/// which it is taken for if the first line begins with a number and a space.
/// @param file  for messages
/// @throws Error{corrupt} for a name or number that occurs twice or is missing, or if there are no names
std::vector<std::string> parse_class_names(std::string_view text, const std::string& file);

}  // namespace lockstep::vision
