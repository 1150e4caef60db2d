// SPDX-License-Identifier: Apache-2.0
#include "backends/selection_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::backends {
namespace {

using collectives::SelectionTable;
using collectives::TableEntry;
using nlohmann::json;

constexpr std::string_view format_name = "lockstep selection table";
constexpr int format_version = 1;
constexpr std::array<std::string_view, 3> file_keys = {"format", "version", "entries"};
constexpr std::array<std::string_view, 10> entry_keys = {
    "operation",   "ranks",     "nodes",         "ranks_per_node",   "from_bytes",
    "below_bytes", "algorithm", "segment_bytes", "blocks_in_flight", "radix"};
constexpr std::string_view optional_key = "radix";  // tables of earlier versions lack it, which means 2

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::corrupt, what); }

/// Parses JSON and refuses deeper nesting than a table has, because nested values are destroyed and printed by
/// recursion.
json parse_json(const std::string& text, const std::string& file) {
  constexpr int deepest = 8;
  json whole = json::parse(
      text,
      [&](int depth, json::parse_event_t, json&) {
        if (depth > deepest)
          refuse(file + ": objects and lists are nested more than " + std::to_string(deepest) + " deep");
        return true;
      },
      false);
  if (whole.is_discarded()) refuse(file + ": this is not JSON");
  return whole;
}

/// Returns a value as error messages quote it.
std::string echo(const json& value) {
  return lockstep::echo(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

void check_keys(const json& object, std::span<const std::string_view> keys) {
  if (!object.is_object()) refuse("here is " + echo(object) + " where an object should be");
  for (const auto& item : object.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
    refuse(unknown("key", item.key(), keys));
  }
  for (const std::string_view key : keys) {
    if (!object.contains(key) && key != optional_key) refuse("the key '" + std::string(key) + "' is missing");
  }
}

template <typename Integer>
Integer integer(const json& value, const std::string& key) {
  const bool is_64_bit = value.is_number_integer() &&
                         (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
  const std::int64_t number = is_64_bit ? value.get<std::int64_t>() : -1;
  if (!is_64_bit || number < 0 || number > std::numeric_limits<Integer>::max()) {
    refuse("\"" + key + "\" is " + echo(value) + "; it must be a whole number that is not negative" +
           (sizeof(Integer) == sizeof(int) ? " and fits into 31 bits" : ""));
  }
  return static_cast<Integer>(number);
}

std::string text_of(const json& object, const std::string& key) {
  const json& value = object.at(key);
  if (!value.is_string()) refuse("\"" + key + "\" is " + echo(value) + "; it must be a text");
  return value.get<std::string>();
}

TableEntry entry_from(const json& object) {
  check_keys(object, entry_keys);
  const auto number = [&](const char* key) { return integer<int>(object.at(key), key); };
  const auto bytes = [&](const char* key) { return Bytes{integer<std::int64_t>(object.at(key), key)}; };
  const json& per_node = object.at("ranks_per_node");
  if (!per_node.is_array() || per_node.size() != 2) {
    refuse("\"ranks_per_node\" is " + echo(per_node) + "; it must be [fewest, most]");
  }
  TableEntry entry;
  entry.kind = collectives::parse_kind(text_of(object, "operation"));
  entry.shape = {.nodes = number("nodes"),
                 .ranks = number("ranks"),
                 .min_ranks_per_node = integer<int>(per_node[0], "ranks_per_node"),
                 .max_ranks_per_node = integer<int>(per_node[1], "ranks_per_node")};
  entry.from = bytes("from_bytes");
  if (!object.at("below_bytes").is_null()) entry.below = bytes("below_bytes");
  entry.choice = {.algorithm = collectives::parse_algorithm(entry.kind, text_of(object, "algorithm")),
                  .segment = bytes("segment_bytes"),
                  .blocks_in_flight = number("blocks_in_flight"),
                  .radix = object.contains(optional_key) ? number("radix") : 2};
  return entry;
}

nlohmann::ordered_json to_json(const TableEntry& entry) {
  return {{"operation", name(entry.kind)},
          {"ranks", entry.shape.ranks},
          {"nodes", entry.shape.nodes},
          {"ranks_per_node", {entry.shape.min_ranks_per_node, entry.shape.max_ranks_per_node}},
          {"from_bytes", entry.from.value},
          {"below_bytes", entry.below == TableEntry::no_end ? nlohmann::ordered_json(nullptr)
                                                            : nlohmann::ordered_json(entry.below.value)},
          {"algorithm", algorithm_name(entry.kind, entry.choice.algorithm)},
          {"segment_bytes", entry.choice.segment.value},
          {"blocks_in_flight", entry.choice.blocks_in_flight},
          {"radix", entry.choice.radix}};
}

/// Runs a parsing step and prefixes its errors with the place.
template <typename Step>
void at(const std::string& place, const Step& step) {
  try {
    step();
  } catch (const Error& error) {
    refuse(place + ": " + error.message());
  }
}

}  // namespace

SelectionTable parse_selection_table(const std::string& text, const std::string& file) {
  const json whole = parse_json(text, file);
  SelectionTable table;
  at(file, [&] {
    check_keys(whole, file_keys);
    if (text_of(whole, "format") != format_name) {
      refuse("\"format\" is " + echo(whole["format"]) + "; it must be \"" + std::string(format_name) + '"');
    }
    if (whole["version"] != format_version) {
      refuse("\"version\" is " + echo(whole["version"]) + "; this program reads version " +
             std::to_string(format_version));
    }
    if (!whole["entries"].is_array()) refuse("\"entries\" is " + echo(whole["entries"]) + "; it must be a list");
    int number = 0;
    for (const json& entry : whole["entries"]) {
      at("entry " + std::to_string(++number), [&] { table.add(entry_from(entry)); });
    }
  });
  return table;
}

std::string format_selection_table(const SelectionTable& table) {
  std::string lines;
  for (const TableEntry& entry : table.entries()) {
    lines += (lines.empty() ? "\n    " : ",\n    ") + to_json(entry).dump();
  }
  return "{\n  \"format\": \"" + std::string(format_name) + "\",\n  \"version\": " + std::to_string(format_version) +
         ",\n  \"entries\": [" + lines + "\n  ]\n}\n";
}

SelectionTable read_selection_table(const std::string& file) { return parse_selection_table(read_text(file), file); }

SelectionTable agreed_selection_table(const RankSet& group, const std::string& file) {
  SelectionTable table;
  const Phase phase(group, "reading the selection table '" + file + "'", Phase::Kind::work);
  agree_on_rank_zero(group, [&] { table = read_selection_table(file); });
  const std::string text = broadcast_string(group, format_selection_table(table), {0});
  return group.rank() == Rank{0} ? table : parse_selection_table(text, file);
}

}  // namespace lockstep::backends
