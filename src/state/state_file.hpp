// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/base/types.hpp"
#include "state/file.hpp"

namespace lockstep::state {

/// The content of `state.json`: everything of a checkpoint that is no tensor, and the checksums of its files.
///
/// A program of one version reads files of the same version and of any revision. A later revision only adds keys, which
/// this program ignores; in a file of its own or an earlier revision, an unknown key is an error. The text begins with
/// its own CRC-32, computed with zeros in the place of its digits, so that no digit of a step or a loss changes
/// unnoticed.
class StateFile {
 public:
  static constexpr std::int64_t version = 2;
  static constexpr std::int64_t revision = 0;

  /// A whole number, a real number, or a text. A flag is 0 or 1; a whole number beyond 2⁶³ − 1 is a text.
  using Value = std::variant<std::int64_t, double, std::string>;
  using Section = std::map<std::string, Value>;
  /// A file of the checkpoint.
  struct Record {
    Checksum whole;
    std::map<std::string, std::uint32_t> tensors;  ///< CRC-32 by name
    friend bool operator==(const Record&, const Record&) = default;
  };

  std::int64_t step = 0;  ///< of the run; the checkpoint's folder is named by it
  std::map<std::string, Section> sections;
  std::map<std::string, Record> files;

  /// Returns the text: keys in order, real numbers with the digits that give the same bits again; infinities and NaN,
  /// which JSON lacks, as texts. Bytes that are not UTF-8 become U+FFFD.
  [[nodiscard]] std::string text() const;
  /// Returns the text with the checksum that it should begin with, if there is a place for it.
  [[nodiscard]] static std::string sealed(std::string text);
  /// Parses an untrusted text. @param file  for error messages
  /// @throws Error{corrupt} that names the file and the key, or if the text's own checksum is wrong; Error{unsupported}
  ///         for another version
  static StateFile parse(std::string_view text, const std::string& file);

  /// Returns a value of a section.
  /// @throws Error{corrupt} that names the key and the value if it is missing or of another kind
  [[nodiscard]] std::int64_t integer(const std::string& section, const std::string& key) const;
  /// As `integer`, and accepts whole numbers and the texts for infinities and NaN.
  [[nodiscard]] double real(const std::string& section, const std::string& key) const;
  /// As `integer`, for texts.
  [[nodiscard]] const std::string& words(const std::string& section, const std::string& key) const;

  /// Returns a value as a real number, as `real` does; nothing if it is none.
  [[nodiscard]] static std::optional<double> real_of(const Value& value);

  friend bool operator==(const StateFile&, const StateFile&) = default;
};

}  // namespace lockstep::state
