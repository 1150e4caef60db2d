// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/selection.hpp"

#include <algorithm>
#include <tuple>

#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Error(ErrorCode::invalid_argument, otherwise);
}

std::string range_text(const TableEntry& entry) {
  const std::string from = "from " + std::to_string(entry.from.value) + " bytes";
  return entry.below == TableEntry::no_end ? from + " on" : from + " to below " + std::to_string(entry.below.value);
}

auto sort_key(const TableEntry& entry) { return std::tuple(entry.kind, entry.shape, entry.from); }

bool is_for(const TableEntry& entry, CollectiveKind kind, const ShapeSummary& shape) {
  return entry.kind == kind && entry.shape == shape;
}

void check_setting(const Choice& choice) {
  require(choice.segment >= 1,
          "the segment is " + std::to_string(choice.segment.value) + " bytes; it must be at least 1");
  require(choice.radix >= 2, "the radix is " + std::to_string(choice.radix) + "; it must be at least 2");
  require(1 <= choice.blocks_in_flight && choice.blocks_in_flight <= SelectionTable::max_blocks_in_flight,
          "the blocks in flight are " + std::to_string(choice.blocks_in_flight) + "; they must be from 1 to " +
              std::to_string(SelectionTable::max_blocks_in_flight));
}

void check(const TableEntry& entry) {
  const Choice& choice = entry.choice;
  const ShapeSummary& s = entry.shape;
  require(is_possible(s), std::to_string(s.ranks) + " ranks cannot be on " + std::to_string(s.nodes) + " nodes with " +
                              std::to_string(s.min_ranks_per_node) + " to " + std::to_string(s.max_ranks_per_node) +
                              " on each");
  require(entry.from.value >= 0 && entry.from < entry.below, "there is no size " + range_text(entry));
  require_applicable(choice.algorithm, s);
  check_setting(choice);
}

/// Returns whether a forced tree_order may also reduce in shared memory.
bool may_add_in_nodes(const Selection& s) {
  return s.forced->algorithm == Algorithm::tree_order && s.canonical_nodes && s.shape.max_ranks_per_node > 1;
}

bool possible(Algorithm algorithm, const Selection& s) { return s.shared_memory || !uses_shared_memory(algorithm); }

/// Returns whether the ranks of each node are consecutive.
bool is_consecutive(const ClusterShape& shape) {
  const std::vector<int>& node = shape.node_of_rank;
  int changes = 0;
  for (std::size_t rank = 1; rank < node.size(); ++rank) changes += node[rank] != node[rank - 1] ? 1 : 0;
  return changes + 1 == shape.nodes();
}

constexpr std::size_t reason_column = 14;  // indent of lines that continue a row

std::string reason(const Decision& decision, const Selection& selection, std::string_view table) {
  switch (decision.reason) {
    case Reason::forced: return "forced";
    case Reason::table: {
      const TableEntry& entry = *decision.entry;
      const std::string end = entry.below == TableEntry::no_end ? "" : " to below " + std::to_string(entry.below.value);
      return "table " + std::string(table) + ", entry from " + std::to_string(entry.from.value) + end;
    }
    case Reason::cost_model: break;
  }
  return selection.table.entries().empty() ? "cost model" : "cost model: no entry of " + std::string(table);
}

}  // namespace

Selection forced(const Choice& choice) { return {.forced = choice}; }

bool adds_by_cache(const Selection& s) {
  const ShapeSummary& shape = s.shape;
  if (s.ranks_per_cache < 2 || s.ranks_per_cache >= shape.max_ranks_per_node || !s.shared_memory) return false;
  if (shape.nodes > 1) return shape.min_ranks_per_node == shape.max_ranks_per_node;
  return !s.forced || is_canonical(s.forced->algorithm);
}

bool is_canonical(const Selection& s) { return s.forced && is_canonical(s.forced->algorithm); }

Selection selection_on(const ClusterShape& shape, Selection wish) {
  check_setting(wish.untuned);
  wish.shape = summarize(shape);
  wish.consecutive_nodes = is_consecutive(shape);
  wish.canonical_nodes = keeps_canonical_order(shape);
  if (!wish.forced) return wish;
  check_setting(*wish.forced);
  require_applicable(wish.forced->algorithm, wish.shape);
  require(wish.forced->algorithm != Algorithm::hierarchical_tree_order || wish.canonical_nodes,
          "the algorithm '" + std::string(name(wish.forced->algorithm)) +
              "' needs nodes of 2^k consecutive ranks each, the last of which may have fewer; tree-order gives the "
              "same bits wherever ranks are placed");
  wish.forced = with_useful_blocks(*wish.forced, wish.shape);
  return wish;
}

void SelectionTable::add(const TableEntry& entry) {
  check(entry);
  for (const TableEntry& other : entries_) {
    if (!is_for(other, entry.kind, entry.shape)) continue;
    require(entry.below <= other.from || other.below <= entry.from,
            std::string(name(entry.kind)) + " on " + describe(entry.shape) + ": the sizes " + range_text(entry) +
                " overlap with those " + range_text(other));
  }
  const auto before = [](const TableEntry& a, const TableEntry& b) { return sort_key(a) < sort_key(b); };
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), entry, before), entry);
}

void SelectionTable::erase(CollectiveKind kind, const ShapeSummary& shape) {
  std::erase_if(entries_, [&](const TableEntry& entry) { return is_for(entry, kind, shape); });
}

const TableEntry* SelectionTable::find(CollectiveKind kind, const ShapeSummary& shape, Bytes bytes) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const TableEntry& entry) {
    return is_for(entry, kind, shape) && entry.covers(bytes);
  });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<PricedChoice> priced_candidates(const Selection& s, CollectiveKind kind, Bytes bytes, SelectedBy by) {
  std::vector<PricedChoice> priced;
  std::vector<Algorithm> able = candidates(kind, s.shape, by);
  if (kind == CollectiveKind::all_reduce && s.shape.nodes == 1 && adds_by_cache(s))
    able.push_back(Algorithm::hierarchical_tree_order);
  for (const Algorithm algorithm : able) {
    if (!possible(algorithm, s)) continue;
    for (const int radix : useful_radices(kind, algorithm, s.shape)) {
      const Choice choice =
          with_useful_blocks({algorithm, s.untuned.segment, s.untuned.blocks_in_flight, radix}, s.shape);
      priced.push_back({choice, predicted_seconds(choice, kind, bytes, s)});
    }
  }
  std::stable_sort(priced.begin(), priced.end(), [](const PricedChoice& a, const PricedChoice& b) {
    return a.predicted_seconds < b.predicted_seconds;
  });
  return priced;
}

Decision choose(const Selection& s, CollectiveKind kind, Bytes bytes) {
  if (s.forced) {
    Choice choice = *s.forced;
    if (s.shared_memory && may_add_in_nodes(s)) choice.algorithm = Algorithm::hierarchical_tree_order;
    choice = with_useful_blocks(choice, s.shape);
    return {choice, Reason::forced, {}, predicted_seconds(choice, kind, bytes, s)};
  }
  const TableEntry* entry = s.table.find(kind, s.shape, bytes);
  if (entry != nullptr && possible(entry->choice.algorithm, s)) {
    return {entry->choice, Reason::table, *entry, predicted_seconds(entry->choice, kind, bytes, s)};
  }
  const PricedChoice best = priced_candidates(s, kind, bytes).front();
  return {best.choice, Reason::cost_model, {}, best.predicted_seconds};
}

bool may_share_memory(const Selection& s) {
  if (s.forced && uses_shared_memory(s.forced->algorithm)) return true;
  if (!s.shared_memory) return false;
  if (s.forced) return may_add_in_nodes(s);
  const std::vector<Algorithm> able = candidates(CollectiveKind::all_reduce, s.shape);
  const std::vector<TableEntry>& entries = s.table.entries();
  return std::any_of(able.begin(), able.end(), uses_shared_memory) ||
         std::any_of(entries.begin(), entries.end(), [&](const TableEntry& entry) {
           return entry.shape == s.shape && uses_shared_memory(entry.choice.algorithm);
         });
}

int max_blocks_in_flight(const Selection& s) {
  if (s.forced) return s.forced->blocks_in_flight;
  int most = s.untuned.blocks_in_flight;
  for (const TableEntry& entry : s.table.entries()) {
    if (entry.shape == s.shape) most = std::max(most, entry.choice.blocks_in_flight);
  }
  return most;
}

std::string explain(const Selection& selection, CollectiveKind kind, std::span<const Bytes> sizes,
                    std::string_view table, std::size_t columns) {
  std::vector<Decision> decisions;
  std::size_t longest = std::string_view("algorithm").size();
  for (const Bytes size : sizes) {
    decisions.push_back(choose(selection, kind, size));
    longest = std::max(longest, algorithm_name(kind, decisions.back().choice.algorithm).size());
  }
  std::string text = wrapped("# " + std::string(name(kind)) + " on " + describe(selection.shape), columns);
  if (!selection.shared_memory) text += "# the ranks of a node cannot share memory: by messages only\n";
  text += format_text("# %10s  ", "size (B)") + padded("algorithm", longest) +
          format_text("%6s %11s %6s %10s  %s\n", "radix", "segment (B)", "blocks", "model (us)", "why");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Decision& decision = decisions[i];
    text += wrapped(format_text("%12lld  ", static_cast<long long>(sizes[i].value)) +
                        padded(algorithm_name(kind, decision.choice.algorithm), longest) +
                        format_text("%6s %11lld %6d %10.2f  ", radix_text(kind, decision.choice).c_str(),
                                    static_cast<long long>(decision.choice.segment.value),
                                    decision.choice.blocks_in_flight, decision.predicted_seconds * 1e6) +
                        reason(decision, selection, table),
                    columns, reason_column);
  }
  return text;
}

}  // namespace lockstep::collectives
