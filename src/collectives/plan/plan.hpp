// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "lockstep/base/types.hpp"

/// Plans: what one rank exchanges in a collective, as a value. Nothing here communicates.
namespace lockstep::collectives {

/// The memories a plan names. An executor binds them to real ones.
enum class Memory : std::uint8_t {
  input,    ///< what the rank contributes; never written
  output,   ///< the result; an in-place operation starts with its contribution here
  scratch,  ///< the executor's own, `Plan::scratch` elements
  staging,  ///< the executor's own, `Plan::staging` elements in memory that the node's ranks share
};

/// Elements `offset` … `offset + count` of one memory, or of one of the rank's inputs; where it consists of parts, one
/// for each rank, of one part.
struct Range {
  Memory memory = Memory::output;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  int leaf = 0;  ///< which of the rank's inputs; 0 for the other memories
  friend bool operator==(const Range&, const Range&) = default;
};

/// Sends `from` to `peer`. The range must not change until the step is done.
struct Send {
  int peer;
  Range from;
};
/// Overwrites `to` with what `peer` sends.
struct Receive {
  int peer;
  Range to;
};
/// to = (received from `peer`) ⊕ own; `own` may equal `to`.
struct ReceiveReduce {
  int peer;
  Range to;
  Range own;
};
/// to = from.
struct Copy {
  Range to;
  Range from;
};
/// to = to ⊕ from.
struct Reduce {
  Range to;
  Range from;
};
/// to = what the caller's function makes of the complete sum `from` and of what the caller had in `to`, which lies in
/// the output. The two may be equal; then the function sees the sum only.
struct Apply {
  Range to;
  Range from;
};
/// to = the operation's neutral element: a rank without a contribution takes part all the same.
struct Fill {
  Range to;
};

/// Stands for the rank whose plan it is.
inline constexpr int self = -1;

/// A range of the input or output of a rank of the same node, or of any memory of `self`. Where the other rank's plan
/// has a staging area, it is the same range of that: its input and output lie where nobody else sees them. Where the
/// rank has several inputs they are staged one behind the other, a block's elements each.
struct NodeRange {
  int rank = self;
  Range range;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

/// Tells the other ranks of the node that all steps listed before are done. A rank's phases count up from 0.
struct Publish {
  int phase;
};
/// Waits until each of `peers`, other ranks of the node, has published `phase`.
struct Await {
  std::vector<int> peers;
  int phase;
};
/// The order in which a Combine adds up its sources.
enum class AdditionOrder : std::uint8_t {
  left_to_right,
  canonical,  ///< see canonical_order.hpp; every sum is rounded to the type, as it is where messages carry it
};

/// Every one of `to` = the sum of `from`: straight out of and into the memory of the node's ranks. One source is
/// copied. Any of `to` may equal any of `from`.
struct Combine {
  std::vector<NodeRange> to;
  std::vector<NodeRange> from;
  AdditionOrder order = AdditionOrder::left_to_right;
  /// In the canonical order: of how many leaves each source is the sum, where it is of several; empty: of one each.
  std::vector<int> widths{};
};

using Step = std::variant<Send, Receive, ReceiveReduce, Copy, Reduce, Apply, Fill, Publish, Await, Combine>;

/// One rank's part of a collective.
///
/// Steps are listed in an order in which they could be run one by one, were every message buffered. They need not be: a
/// step may start as soon as the earlier steps it conflicts with are done (they touch the same elements and at least
/// one of the two writes), and as soon as the earlier steps of the same direction with the same peer have started,
/// because messages between two ranks match in order. A message of no elements is a signal, sent only when the signals
/// listed before it have come. A ReceiveReduce waits for the one `landing_buffers` before it. A Publish waits for all
/// steps before it, an Await for the Publish before it, and all steps after an Await for the Await. `dependencies()`
/// derives all of this.
struct Plan {
  std::vector<Step> steps;
  Count scratch;
  Count staging;
};

/// How many messages of one plan may be on their way into a ReceiveReduce at a time: an executor keeps a buffer for
/// each, so on many ranks they must not all be posted at once.
inline constexpr int landing_buffers = 4;

/// What a step waits for: indices of earlier steps.
struct Dependencies {
  std::vector<int> done;     ///< must be complete
  std::vector<int> started;  ///< must have been posted
};

/// How many blocks of a channel the ranks of a node keep apart, see `prove_succession`.
inline constexpr int slots_of_a_channel = 2;

/// One entry per step, without what follows by transitivity from the others where that is cheap to see.
std::vector<Dependencies> dependencies(const Plan& plan);

}  // namespace lockstep::collectives
