// SPDX-License-Identifier: Apache-2.0
// A database whose keys and values are the lines of the input: "KEY=VALUE".
#include "vision/formats/text_records.hpp"

#include <map>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/characters.hpp"

namespace lockstep::fuzz {
namespace {

class Lines final : public vision::KeyValues {
 public:
  explicit Lines(std::string_view text) {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      const std::size_t equals = line.find('=');
      if (equals != std::string_view::npos) values_[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
  }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(values_); }
  [[nodiscard]] std::optional<std::span<const std::byte>> find(std::string_view key) const override {
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    return std::as_bytes(std::span(found->second));
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

void list_records(const std::string& input) {
  const Lines database(input);
  vision::PartNotes notes;
  std::vector<vision::TextRecord> records;
  try {
    records = vision::list_text_records(database, "input", notes);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  require(std::ssize(records) + notes.without_annotation.count + notes.without_picture.count <= database.size(),
          "more samples than keys");
  for (const vision::TextRecord& record : records) {
    const auto picture = database.find(record.key);
    require(picture && !picture->empty() && std::ssize(*picture) == record.bytes, "a sample without a picture");
    require(vision::is_utf8(record.text), "a text that is not UTF-8");
  }
}

const Registration text_records("text_records", list_records);

}  // namespace
}  // namespace lockstep::fuzz
