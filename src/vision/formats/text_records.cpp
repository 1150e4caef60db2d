// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/text_records.hpp"

#include <charconv>
#include <system_error>
#include <utility>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/characters.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr const char* number_key = "num-samples";

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string key_of(const char* what, std::int64_t number) {
  return format_text("%s-%09lld", what, static_cast<long long>(number));
}

[[noreturn]] void refuse_database(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::corrupt, shown(file) + ": " + what);
}

std::int64_t number_of_samples(const KeyValues& database, const std::string& file) {
  const auto value = database.find(number_key);
  if (!value)
    refuse_database(file,
                    std::string("it has no key ") + number_key + ", so it is no database of texts as PaddleOCR's");
  const std::string_view digits = text_in(*value);
  std::int64_t samples = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), samples);
  if (error != std::errc() || end != digits.data() + digits.size() || samples < 0)
    refuse_database(file, std::string(number_key) + " is '" + echo(digits) + "', which is no number of samples");
  if (samples > database.size())
    refuse_database(file, std::string(number_key) + " is " + std::to_string(samples) + ", but there are only " +
                              std::to_string(database.size()) + " keys; write the database again");
  return samples;
}

}  // namespace

std::vector<TextRecord> list_text_records(const KeyValues& database, const std::string& file, PartNotes& notes) {
  std::vector<TextRecord> records;
  const std::int64_t samples = number_of_samples(database, file);
  for (std::int64_t number = 1; number <= samples; ++number) {
    TextRecord record{.key = key_of("image", number), .bytes = 0, .text = {}};
    const std::string label_key = key_of("label", number);
    const auto picture = database.find(record.key);
    const auto label = database.find(label_key);
    if (!label) {
      notes.without_annotation.add(file + ' ' + record.key);
    } else if (!picture || picture->empty()) {
      notes.without_picture.add(file + ' ' + label_key);
    } else if (!is_utf8(text_in(*label))) {
      refuse_database(file, label_key + " has '" + echo(text_in(*label)) + "', which is not UTF-8");
    } else {
      record.bytes = static_cast<std::int64_t>(picture->size());
      record.text = text_in(*label);
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace lockstep::vision
