// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/options.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "base/nearest.hpp"

namespace lockstep::backends {
namespace {

constexpr std::array<std::string_view, 3> names_of_sockets = {"auto", "no", "yes"};

std::string parameters_of(const collectives::Choice& choice) {
  return "segments of " + std::to_string(choice.segment.value) + " bytes, " + std::to_string(choice.blocks_in_flight) +
         " blocks in flight, radix " + std::to_string(choice.radix);
}

/// Returns a short digest of a table, by which ranks compare their tables.
std::string fingerprint(const collectives::SelectionTable& table) {
  if (table.entries().empty()) return "none";
  Fnv1a hash;
  for (const collectives::TableEntry& entry : table.entries()) {
    hash.add(std::string(name(entry.kind)) + describe(entry.shape) + std::string(name(entry.choice.algorithm)) +
             parameters_of(entry.choice));
    hash.add(entry.from.value);
    hash.add(entry.below.value);
  }
  return std::to_string(table.entries().size()) + " entries, fingerprint " + std::to_string(hash.value());
}

}  // namespace

std::span<const std::string_view> socket_names() { return names_of_sockets; }

Sockets parse_sockets(std::string_view name) {
  const auto found = std::find(names_of_sockets.begin(), names_of_sockets.end(), name);
  if (found == names_of_sockets.end())
    throw Error(ErrorCode::invalid_argument, unknown("choice of sockets", name, names_of_sockets));
  return static_cast<Sockets>(found - names_of_sockets.begin());
}

std::string_view name(Sockets sockets) {
  return sockets == Sockets::everywhere ? "everywhere" : names_of_sockets[static_cast<std::size_t>(sockets)];
}

std::vector<Term> terms_of(const PlanOptions& options) {
  const collectives::Selection& selection = options.selection;
  return {{"algorithm", selection.forced ? std::string(name(selection.forced->algorithm)) : "auto"},
          {"parameters of algorithms", parameters_of(selection.forced.value_or(selection.untuned))},
          {"selection table", fingerprint(selection.table)},
          {"operations in flight", std::to_string(options.operations_in_flight)},
          {"staging area (bytes)", std::to_string(options.node.staging.value)},
          {"pull limit (bytes)", std::to_string(options.node.pull_limit.value)},
          {"ranks of a cache", std::to_string(selection.ranks_per_cache)},
          {"message limit (bytes)", std::to_string(options.message_limit.value)},
          {"sockets", std::string(name(options.sockets))},
          {"checksum", options.checksum ? "yes" : "no"},
          {"connections", std::to_string(options.connections)}};
}

std::string differences(const std::vector<Term>& mine, const std::vector<Term>& theirs, Rank me, Rank other) {
  std::string text;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (theirs[i].value == mine[i].value) continue;
    text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(me.value)) + " has " + mine[i].name + " " +
            mine[i].value + ", rank " + std::to_string(other.value) + " has " + theirs[i].value;
  }
  return text;
}

}  // namespace lockstep::backends
