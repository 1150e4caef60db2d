// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/choice/choice.hpp"

namespace lockstep::collectives {

/// The cost of a link: a message of n bytes arrives after α + nβ and occupies the ports for that time minus
/// `wire_seconds`. Between nodes, β belongs to the node's link, which its ranks share in each direction; the rest of α
/// belongs to each rank.
struct LinkCost {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< part of α for which the message travels and the ports are free
  double peer_seconds = 0;  ///< of shared memory, as in `Rates`
};

/// The α–β–γ model with LogP's distinction between overhead and latency. Copies and fills inside a rank are free, as in
/// the literature. Between ranks that share memory a Publish is visible after the local α, and the bytes that a Combine
/// reads from or writes to the others cost the local β. Each further rank that an Await names costs the local
/// `peer_seconds`.
struct CostModel {
  LinkCost local;                     ///< between ranks of one node
  LinkCost remote;                    ///< between nodes
  double gamma_seconds_per_byte = 0;  ///< for additions
};

/// Costs of both media.
struct Prices {
  CostModel messages;
  Rates shared_memory;  ///< α until another rank sees a publish, β for reading or writing its memory
};

/// Default costs. Local messages: measured with 2 ranks of one node per message, and per byte beyond 64 KiB, with Open
/// MPI 4.1 (docs/selection.md); shared memory: the same ranks, and for further ones a simulation of cache lines
/// (docs/performance.md, nodes of many cores). Remote messages: an average Ethernet of 25 Gbit/s and 5
/// µs, of which the processor spends half a microsecond. They rank algorithms and do not predict the times of a
/// machine.
constexpr Prices default_prices() {
  return {
      .messages = {.local = {0.7e-6, 0.10e-9}, .remote = {5e-6, 0.32e-9, 4.5e-6}, .gamma_seconds_per_byte = 0.15e-9},
      .shared_memory = {0.2e-6, 0.02e-9, 0.03e-9, 0, 25e-9}};
}

/// The choice for a range of sizes on clusters of one shape. Sizes are those of `predicted_seconds`.
struct TableEntry {
  static constexpr Bytes no_end{std::numeric_limits<std::int64_t>::max()};

  CollectiveKind kind = CollectiveKind::all_reduce;
  ShapeSummary shape;
  Bytes from;
  Bytes below = no_end;  ///< the first size beyond the range
  Choice choice;

  /// Whether a buffer of this size belongs to the range.
  [[nodiscard]] bool covers(Bytes bytes) const { return from <= bytes && (bytes < below || below == no_end); }
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

/// A tuning table: entries that do not overlap, for any number of shapes, possibly with gaps.
class SelectionTable {
 public:
  /// More would be useless, and a message's tag has to hold the number.
  static constexpr int max_blocks_in_flight = 64;

  /// @throws Error{invalid_argument} that names the value at fault for an empty or negative range, one that overlaps
  ///         another entry's, an impossible shape, an algorithm that is not applicable to it, a segment below 1, a
  ///         radix below 2, or blocks in flight outside 1 … max_blocks_in_flight
  void add(const TableEntry& entry);
  /// Removes the entries of an operation on clusters of this shape.
  void erase(CollectiveKind kind, const ShapeSummary& shape);
  /// The entry that covers this size; null if none does. Valid until the table changes.
  [[nodiscard]] const TableEntry* find(CollectiveKind kind, const ShapeSummary& shape, Bytes bytes) const;
  /// The entries, ordered by operation, shape and size.
  [[nodiscard]] const std::vector<TableEntry>& entries() const { return entries_; }

  friend bool operator==(const SelectionTable&, const SelectionTable&) = default;

 private:
  std::vector<TableEntry> entries_;
};

/// The rules of the choice, and after `selection_on` everything that it depends on, so that ranks with equal selections
/// choose alike. It is the only way to force an algorithm. By default it selects for speed.
struct Selection {
  ShapeSummary shape;            ///< set by `selection_on`
  std::optional<Choice> forced;  ///< used for every size and operation
  SelectionTable table;
  Choice untuned;  ///< segment and blocks in flight for sizes without a table entry
  Prices prices = default_prices();
  bool consecutive_nodes = true;  ///< ranks are numbered node by node; set by `selection_on`
  bool shared_memory = true;  ///< false if the ranks of a node cannot share memory; all operations then use messages
  /// By how many consecutive ranks an all_reduce divides those of a node (`adds_by_cache`); 0: it does not.
  int ranks_per_cache = 0;
  bool canonical_nodes =
      false;  ///< `keeps_canonical_order`, set by `selection_on`: a forced tree_order can use shared memory
};

/// A selection that forces one choice for every size.
Selection forced(const Choice& choice);

/// Whether the selection guarantees the bits of the canonical order, so that sums must not be rounded on the wire.
bool is_canonical(const Selection& selection);

/// Whether all-reduces in shared memory add up the ranks of each cache first: on one node in the canonical order,
/// unless another algorithm is forced; on several nodes with equally many ranks always.
bool adds_by_cache(const Selection& selection);

/// Completes a selection for this cluster; its shape is replaced.
/// @throws Error{invalid_argument} that names the value at fault, unless the forced algorithm is applicable, segments
/// are at least 1 byte, radices at least 2, and blocks in flight from 1 to SelectionTable::max_blocks_in_flight
Selection selection_on(const ClusterShape& shape, Selection wish = {});

/// The reason of a choice: it was forced, the tuning table has an entry, or its predicted time is the lowest.
enum class Reason { forced, table, cost_model };

/// The choice for one operation and size, with its reason.
struct Decision {
  Choice choice;
  Reason reason = Reason::cost_model;
  std::optional<TableEntry> entry;  ///< the table entry, if it is the reason
  double predicted_seconds = 0;
};

/// A choice with its predicted time.
struct PricedChoice {
  Choice choice;
  double predicted_seconds = 0;
};

/// Returns the candidates, with each of their useful radices, sorted by predicted time; equal times keep the order of
/// the candidates. On one node tree_order in shared memory is among them if `adds_by_cache`.
/// @param bytes  as in `predicted_seconds`
/// @param by     as in `candidates`
std::vector<PricedChoice> priced_candidates(const Selection& selection, CollectiveKind kind, Bytes bytes,
                                            SelectedBy by = SelectedBy::cost_model);

/// Selects: the forced choice (tree_order in shared memory if that gives the same bits); otherwise the table entry,
/// unless it needs shared memory that does not exist; otherwise tree_order if `adds_by_cache`; otherwise the first of
/// the priced candidates. Ranks with equal selections get the same result.
/// @param bytes  as in `predicted_seconds`
Decision choose(const Selection& selection, CollectiveKind kind, Bytes bytes);

/// Whether `choose` can return an algorithm that uses shared memory.
bool may_share_memory(const Selection& selection);

/// The largest number of blocks in flight that `choose` can return.
int max_blocks_in_flight(const Selection& selection);

/// A line for each size: the choice, the predicted time and the reason. The text ends with a newline.
/// @param sizes  as in `predicted_seconds`
/// @param table  name of the selection's table, for instance its file
/// @param columns  the length at which lines are broken; at least 80
std::string explain(const Selection& selection, CollectiveKind kind, std::span<const Bytes> sizes,
                    std::string_view table, std::size_t columns = 100);

/// Predicts the seconds of an operation on the selection's cluster with its costs; `choose` minimizes it. The
/// prediction is the closed formula of one block (the functions beside the algorithms), plus for each further block the
/// time by which it follows the previous one, which is at least the time of the busiest port.
/// - Exchanges at distances below the ranks of a node are local if ranks and ranks per node are powers of two and ranks
///   are numbered node by node; otherwise each round is as slow as a message between nodes.
/// - In exchanges, all ranks of a node with partners on other nodes share its link equally. Rings and trees pass the
///   buffer from rank to rank and use the link alone if ranks are numbered node by node; each of their links has the
///   cost of one between nodes.
/// - A hierarchical all-reduce consists of one in shared memory on the fullest node and one with messages between
///   nodes, in lanes that share the link; the number of lanes is the number of ranks of the smallest node.
/// @param bytes  bytes of the buffer, of one part if each rank has one, or of an average part if they differ; unused by
///               a barrier
double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const Selection& on);

}  // namespace lockstep::collectives
