// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/choice/choice.hpp"
#include "lockstep/collectives/choice/prices.hpp"

namespace lockstep::collectives {

/// What is best for the sizes of a range, on clusters of one shape. Sizes count as in `predicted_seconds`.
struct TableEntry {
  static constexpr Bytes no_end{std::numeric_limits<std::int64_t>::max()};

  CollectiveKind kind = CollectiveKind::all_reduce;
  ShapeSummary shape;
  Bytes from;
  Bytes below = no_end;  ///< the first size that no longer belongs to the range
  Choice choice;

  /// Whether a buffer of this size belongs to the range.
  [[nodiscard]] bool covers(Bytes bytes) const { return from <= bytes && (bytes < below || below == no_end); }
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

/// Entries that do not contradict each other, of any number of shapes; they may leave gaps.
class SelectionTable {
 public:
  /// More would have no use, and a message's tag has to hold it.
  static constexpr int max_blocks_in_flight = 64;

  /// @throws Error{invalid_argument} that names the value at fault for an empty or negative range, one that overlaps
  ///         another entry's, an impossible shape, an algorithm that is not applicable to it, a segment below 1, a
  ///         radix below 2, or blocks in flight outside 1 … max_blocks_in_flight
  void add(const TableEntry& entry);
  /// Forgets what there is about an operation on clusters of this shape.
  void erase(CollectiveKind kind, const ShapeSummary& shape);
  /// The entry that covers this size; null if none does. Valid until the table changes.
  [[nodiscard]] const TableEntry* find(CollectiveKind kind, const ShapeSummary& shape, Bytes bytes) const;
  /// They are ordered by operation, shape and size.
  [[nodiscard]] const std::vector<TableEntry>& entries() const { return entries_; }

  friend bool operator==(const SelectionTable&, const SelectionTable&) = default;

 private:
  std::vector<TableEntry> entries_;
};

/// What a user wants of the choice, and, from `selection_on` on, everything that it depends on, so that ranks with
/// equal selections choose alike. It is the only way to force an algorithm. As it is made it wants what is fastest.
struct Selection {
  ShapeSummary shape;            ///< set by `selection_on`
  std::optional<Choice> forced;  ///< for every size and operation
  SelectionTable table;
  Choice untuned;  ///< gives segment and blocks in flight where the table has no entry
  Prices prices = default_prices();
  bool consecutive_nodes = true;  ///< ranks are numbered node by node; set by `selection_on`
  bool shared_memory = true;      ///< false where the ranks of a node cannot share any: then all is done by messages
  bool canonical_nodes =
      false;  ///< `keeps_canonical_order`, set by `selection_on`: a forced tree_order can share memory
};

/// The wish for one algorithm, whatever the size.
Selection forced(const Choice& choice);

/// Whether it promises the bits of the canonical order, so that nothing may round sums on the way.
bool is_canonical(const Selection& selection);

/// The wish on this cluster. What it says of a shape is replaced.
/// @throws Error{invalid_argument} that names the value at fault, unless what is forced is applicable there, segments
///         are at least 1 byte, radices at least 2, and blocks in flight from 1 to SelectionTable::max_blocks_in_flight
Selection selection_on(const ClusterShape& shape, Selection wish = {});

/// Why an algorithm was chosen: it was asked for, a table of measurements says so, or its predicted time is the lowest.
enum class Reason { forced, table, cost_model };

/// What `choose` has chosen for one operation and size, and why.
struct Decision {
  Choice choice;
  Reason reason = Reason::cost_model;
  std::optional<TableEntry> entry;  ///< where the table is the reason
  double predicted_seconds = 0;
};

/// A choice and what it should take.
struct PricedChoice {
  Choice choice;
  double predicted_seconds = 0;
};

/// What `choose` has to choose between where nothing is forced and no table says anything: the candidates with each of
/// their useful radices, the lowest predicted time first, and of equals the first candidate.
/// @param bytes  as in `predicted_seconds`
std::vector<PricedChoice> priced_candidates(const Selection& selection, CollectiveKind kind, Bytes bytes);

/// What is forced, a tree_order through shared memory where that gives the same bits; else what the table says, unless
/// it takes shared memory that there is none of; else the first of the priced candidates. The same on every rank with
/// an equal selection.
/// @param bytes  as in `predicted_seconds`
Decision choose(const Selection& selection, CollectiveKind kind, Bytes bytes);

/// Whether `choose` can ask for an algorithm that shares memory.
bool may_share_memory(const Selection& selection);

/// The most blocks in flight that `choose` can ask for.
int max_blocks_in_flight(const Selection& selection);

/// A line for each size: what is chosen, the predicted time, and why. Ends with a newline.
/// @param sizes  as in `predicted_seconds`
/// @param table  what to call the selection's table, e.g. its file
/// @param columns  at which lines are broken; at least 80
std::string explain(const Selection& selection, CollectiveKind kind, std::span<const Bytes> sizes,
                    std::string_view table, std::size_t columns = 100);

}  // namespace lockstep::collectives
