// SPDX-License-Identifier: Apache-2.0
#include "state/state_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "state/json_leaves.hpp"

namespace lockstep::state {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "lockstep checkpoint";
constexpr std::string_view before_crc = "{\n  \"crc32\": \"";  // beginning of every text
constexpr std::string_view no_crc = "00000000";

[[noreturn]] void refuse_state(const std::string& what, ErrorCode code = ErrorCode::corrupt) {
  throw Error(code, what + "; resume from another checkpoint");
}

/// Reads 8 hexadecimal digits.
std::optional<std::uint32_t> parse_crc(const JsonVisitor::Scalar& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || text->size() != 8) return std::nullopt;
  std::uint32_t crc = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + 8, crc, 16);
  return failure == std::errc() && end == text->data() + 8 ? std::optional(crc) : std::nullopt;
}

/// Returns the CRC-32 of a text whose own is replaced by zeros. @pre the text begins with `before_crc`
std::uint32_t own_crc(std::string_view text) {
  const auto checksum = [](std::string_view part) { return checksum_of(std::as_bytes(std::span(part))); };
  const std::string_view rest = text.substr(std::min(text.size(), before_crc.size() + no_crc.size()));
  return joined(joined(checksum(before_crc), checksum(no_crc)), checksum(rest)).crc;
}

class StateVisitor : public JsonVisitor {
 public:
  StateVisitor(StateFile& state, const std::string& file) : state_(state), file_(file) { state_.step = -1; }

  void begin_object(const Path& path) override {
    const bool is_file = path.size() > 1 && path[0] == "files";
    if (path.size() == 1 && path[0] == "sections") {
      once(path, !std::exchange(has_sections_, true));
    } else if (path.size() == 1 && path[0] == "files") {
      once(path, !std::exchange(has_files_, true));
    } else if (path.size() == 2 && path[0] == "sections") {
      once(path, state_.sections.try_emplace(path[1]).second);
    } else if (path.size() == 2 && is_file) {
      once(path, state_.files.try_emplace(path[1]).second);
      has_bytes_ = has_crc_ = has_tensors_ = false;
    } else if (path.size() == 3 && is_file && path[2] == "tensors") {
      once(path, !std::exchange(has_tensors_, true));
    } else if (!path.empty()) {
      unknown_key(path);
    }
  }
  void scalar(const Path& path, Scalar value) override {
    if (path.size() == 1) {
      top(path, value);
    } else if (path.size() == 3 && path[0] == "sections") {
      once(path, state_.sections[path[1]].try_emplace(path[2], std::move(value)).second);
    } else if (path.size() == 3 && path[0] == "files") {
      file_field(path, value);
    } else if (path.size() == 4 && path[0] == "files" && path[2] == "tensors") {
      once(path, state_.files[path[1]].tensors.try_emplace(path[3], crc_of(path, value)).second);
    } else {
      unknown_key(path);
    }
  }
  void list(const Path& path, const std::vector<std::int64_t>&) override { unknown_key(path); }
  void end_object(const Path& path) override {
    if (path.size() == 2 && path[0] == "files" && !(has_bytes_ && has_crc_ && has_tensors_)) {
      refuse_state(file_ + ": " + text_of(path) + " lacks its bytes, crc32 or tensors");
    }
  }
  /// Checks what can only be told at the end of the text.
  void finish(std::string_view text) const {
    if (format_ != format_name) refuse_state(file_ + R"(: "format" is not ")" + std::string(format_name) + '"');
    if (version_ != StateFile::version) {
      refuse_state(file_ + ": \"version\" is " + std::to_string(version_) + ", and this program reads version " +
                       std::to_string(StateFile::version) +
                       ": use the lockstep that wrote the file, or begin a run with the weights in model.safetensors "
                       "beside it",
                   ErrorCode::unsupported);
    }
    if (revision_ < 0) refuse_state(file_ + ": \"revision\" is missing or negative");
    if (revision_ <= StateFile::revision && !unknown_.empty()) {
      refuse_state(file_ + ": the key " + unknown_ + " is not known");
    }
    if (!has_sections_ || !has_files_) refuse_state(file_ + R"(: "sections" or "files" is missing)");
    if (state_.step < 0) refuse_state(file_ + ": \"step\" is missing or negative");
    if (!crc_ || !text.starts_with(before_crc)) refuse_state(file_ + ": \"crc32\" of the text does not begin it");
    if (const std::uint32_t crc = own_crc(text); crc != *crc_) {
      refuse_state(file_ + ": the text has the CRC-32 " + hexadecimal(crc) + ", and its \"crc32\" is " +
                   hexadecimal(*crc_) + ", so it is damaged or was changed");
    }
  }

 private:
  void top(const Path& path, const Scalar& value) {
    const auto* text = std::get_if<std::string>(&value);
    const auto* number = std::get_if<std::int64_t>(&value);
    if (path[0] == "crc32") {
      once(path, !std::exchange(crc_, crc_of(path, value)));
    } else if (path[0] == "format" && text != nullptr) {
      once(path, std::exchange(format_, *text).empty());
    } else if (path[0] == "version" && number != nullptr) {
      once(path, std::exchange(version_, *number) == -1);
    } else if (path[0] == "revision" && number != nullptr) {
      once(path, std::exchange(revision_, *number) == -1);
    } else if (path[0] == "step" && number != nullptr) {
      once(path, std::exchange(state_.step, *number) == -1);
    } else {
      unknown_key(path);
    }
  }
  void file_field(const Path& path, const Scalar& value) {
    Checksum& whole = state_.files[path[1]].whole;
    if (path[2] == "crc32") {
      once(path, !std::exchange(has_crc_, true));
      whole.crc = crc_of(path, value);
    } else if (path[2] == "bytes") {
      once(path, !std::exchange(has_bytes_, true));
      const auto* bytes = std::get_if<std::int64_t>(&value);
      if (bytes == nullptr || *bytes < 0) refuse_state(file_ + ": " + text_of(path) + " is no number of bytes");
      whole.bytes = {*bytes};
    } else {
      unknown_key(path);
    }
  }
  [[nodiscard]] std::uint32_t crc_of(const Path& path, const Scalar& value) const {
    const auto crc = parse_crc(value);
    if (!crc) refuse_state(file_ + ": " + text_of(path) + " is not a CRC-32 of 8 hexadecimal digits");
    return *crc;
  }
  void once(const Path& path, bool is_new) const {
    if (!is_new) refuse_state(file_ + ": the key " + text_of(path) + " is there twice");
  }
  void unknown_key(const Path& path) {
    if (unknown_.empty()) unknown_ = text_of(path);
  }

  StateFile& state_;
  const std::string& file_;
  std::string format_;
  std::int64_t version_ = -1;
  std::int64_t revision_ = -1;
  std::optional<std::uint32_t> crc_;  // of the text
  bool has_sections_ = false;
  bool has_files_ = false;
  bool has_bytes_ = false;  // this and the next two: of the file whose object is open
  bool has_crc_ = false;
  bool has_tensors_ = false;
  std::string unknown_;  // the first unknown key
};

json to_json(const StateFile::Value& value) {
  const auto* real = std::get_if<double>(&value);
  if (real != nullptr && std::isnan(*real)) return "nan";
  if (real != nullptr && std::isinf(*real)) return *real > 0 ? "inf" : "-inf";
  return std::visit([](const auto& plain) { return json(plain); }, value);
}

const StateFile::Value& value_of(const StateFile& state, const std::string& section, const std::string& key) {
  const auto found = state.sections.find(section);
  if (found != state.sections.end()) {
    const auto value = found->second.find(key);
    if (value != found->second.end()) return value->second;
  }
  refuse_state("the checkpoint's state.json lacks " + text_of(JsonVisitor::Path{"sections", section, key}));
}

[[noreturn]] void refuse_kind(const std::string& section, const std::string& key, const StateFile::Value& value,
                              const char* kind) {
  refuse_state("in the checkpoint's state.json, " + text_of(JsonVisitor::Path{"sections", section, key}) + " is " +
               echo(to_json(value).dump(-1, ' ', false, json::error_handler_t::replace)) + ", and not " + kind);
}

}  // namespace

std::string StateFile::text() const {
  json whole = {
      {"crc32", no_crc}, {"format", format_name}, {"version", version}, {"revision", revision}, {"step", step}};
  json& all_sections = whole["sections"] = json::object();
  for (const auto& [section, values] : sections) {
    json& object = all_sections[section] = json::object();
    for (const auto& [key, value] : values) object[key] = to_json(value);
  }
  json& all_files = whole["files"] = json::object();
  for (const auto& [file, record] : files) {
    json& tensors =
        (all_files[file] = {{"bytes", record.whole.bytes.value}, {"crc32", hexadecimal(record.whole.crc)}})["tensors"] =
            json::object();
    for (const auto& [tensor, crc] : record.tensors) tensors[tensor] = hexadecimal(crc);
  }
  return sealed(whole.dump(2, ' ', false, json::error_handler_t::replace) + '\n');
}

std::string StateFile::sealed(std::string text) {
  if (text.size() < before_crc.size() + no_crc.size() || !text.starts_with(before_crc)) return text;
  return text.replace(before_crc.size(), no_crc.size(), hexadecimal(own_crc(text)));
}

StateFile StateFile::parse(std::string_view text, const std::string& file) {
  StateFile state;
  StateVisitor visitor(state, file);
  walk_json(text, file, 4, visitor);
  visitor.finish(text);
  return state;
}

std::int64_t StateFile::integer(const std::string& section, const std::string& key) const {
  const Value& value = value_of(*this, section, key);
  if (!std::holds_alternative<std::int64_t>(value)) refuse_kind(section, key, value, "a whole number");
  return std::get<std::int64_t>(value);
}

std::optional<double> StateFile::real_of(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  const auto& text = std::get<std::string>(value);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

double StateFile::real(const std::string& section, const std::string& key) const {
  const Value& value = value_of(*this, section, key);
  if (const auto number = real_of(value)) return *number;
  refuse_kind(section, key, value, "a number");
}

const std::string& StateFile::words(const std::string& section, const std::string& key) const {
  const Value& value = value_of(*this, section, key);
  if (!std::holds_alternative<std::string>(value)) refuse_kind(section, key, value, "a text");
  return std::get<std::string>(value);
}

}  // namespace lockstep::state
