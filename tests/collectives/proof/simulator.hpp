// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"

/// Runs the plans of all ranks on symbols instead of numbers, which proves them without MPI.
namespace lockstep::collectives {

/// The setting of a simulation.
///
/// Leaves are numbered over all ranks, rank by rank. Broadcast and scatter use the root's leaf. In a reduce or gather
/// only the root has an output; in a scatter only the root has an input. Only the root can be in place there.
struct Trial {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Count count;              ///< as in CollectiveDescription, but the same on all ranks
  Rank root;                ///< broadcast, reduce, gather and scatter only
  std::vector<int> leaves;  ///< number of leaves of each rank; empty: one each
  bool in_place = false;
  /// As in CollectiveDescription; for an all_to_all_v the parts of all ranks, concatenated.
  std::vector<std::int64_t> parts{};
};

enum class FaultKind : std::uint8_t {
  malformed,       ///< a range outside its memory, an input written, a peer that does not exist, overlapping operands
  unmatched,       ///< a message without its other half
  unequal_counts,  ///< two halves of a message that differ in length
  deadlock,        ///< steps that wait for each other under synchronous sends
  race,            ///< steps that conflict and may run at the same time
  unwritten,       ///< elements read, or left in the result, that nothing has been written to
  misplaced,       ///< an element added to, or ending as, another element
  redundant,       ///< a message whose content the receiver already has
  missing,         ///< a leaf that is not in a result, or a rank whose signal has not been heard of
  doubled,         ///< a leaf that is in a result more than once
  unequal,         ///< results that differ between ranks in value or in order of addition
};
std::string_view name(FaultKind kind);

struct Fault {
  FaultKind kind;
  int rank;
  int step;  ///< −1 if the fault is in the result
  std::string text;
};

/// Elements `offset` … `offset + count` of a rank's output and how they were added up.
struct ResultPiece {
  std::int64_t offset;
  std::int64_t count;
  Expression value;
  friend bool operator==(const ResultPiece&, const ResultPiece&) = default;
};

struct Simulation {
  std::optional<Fault> fault;  ///< the first fault; nothing: the plans are correct
  Expressions expressions;
  std::vector<std::vector<ResultPiece>> results;  ///< for each rank its output, ascending; empty after a fault
};

/// Proves for these plans, one for each rank: messages match in number and length; nothing blocks although every send
/// is synchronous; no two steps that may run at once conflict; no element is read before it is written; each element of
/// each result is written and holds each leaf it should exactly once; results of an all-reduce were added in the same
/// order on every rank; no message is redundant. One run is enough: without races neither the values nor the ability of
/// all steps to run depend on timing.
/// @cost  O(s log s) for s steps in all, whatever the count
Simulation simulate(std::span<const Plan> plans, const Trial& trial);

/// One of several operations that follow each other on a channel.
struct Turn {
  Trial trial;
  std::vector<Plan> plans;  ///< one for each rank, all of which share memory
};

/// The rule by which a rank opens a block; see NodeLink. Tests remove parts of it.
struct SlotRule {
  int slots = slots_of_a_channel;
  /// Whether it checks the flags of ranks that are not known to have entered.
  bool looks = true;
  /// The number of blocks by which the one that all must have entered may be earlier than the rule says.
  int slack = 0;
  /// Whether it takes all ranks to have entered a block only if it has awaited all of them in it, rather than any of
  /// them.
  bool awaits_all = true;
};

/// Proves that these operations, one after the other on one channel, do not interfere: no rank touches a slot's
/// announcement or staging area while another one may still use it for an earlier operation, no awaited flag can be
/// overwritten before it was seen, and nothing waits forever. `simulate` proves each operation alone. One operation
/// more than there are slots is enough, because slots are used in turn, and an operation that is another `slots` ahead
/// can only be opened after all ranks have entered the operations in between.
/// @param shape  empty: all ranks on one node
/// @return the first fault; its step is within the plan of the turn that the text names, −1 for its opening
std::optional<Fault> prove_succession(std::span<const Turn* const> turns, const ClusterShape& shape,
                                      const SlotRule& rule = {});

}  // namespace lockstep::collectives
