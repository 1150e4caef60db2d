// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vision/source/survey.hpp"

namespace lockstep::vision {

/// Values by key, as a database has them. All functions may be called by several threads at once.
class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// The number of keys.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// @return valid as long as the database; nothing if there is no such key
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> find(std::string_view key) const = 0;
};

/// Opens the database of LMDB in a folder to read it, without locks, so that the folder may be read-only.
/// @throws Error{io} that says why it cannot be opened; Error{corrupt} if the file is shorter than its contents;
///         Error{unsupported} if this lockstep was built without liblmdb
std::shared_ptr<const KeyValues> open_lmdb(const std::filesystem::path& folder);

/// A picture of a line of text in a database.
struct TextRecord {
  std::string key;  ///< of the picture
  std::int64_t bytes = 0;
  std::string text;  ///< in UTF-8; it may be empty
};

/// Lists the samples of a database as PaddleOCR and others lay it out: "num-samples" is their number in digits, and the
/// samples from 1 on have "image-%09d", the file of a picture, and "label-%09d", its text.
/// @param file   names the database, for messages
/// @param notes  gets samples without a picture or a text
/// @throws Error{corrupt} that names the key if the number is missing, wrong, or larger than that of the keys, or if a
///         text is not UTF-8
std::vector<TextRecord> list_text_records(const KeyValues& database, const std::string& file, PartNotes& notes);

}  // namespace lockstep::vision
