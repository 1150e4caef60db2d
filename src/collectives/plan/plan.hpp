// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lockstep/base/types.hpp"

/// Plans: the communication of one rank in a collective, as a value. Nothing here communicates.
namespace lockstep::collectives {

/// The memories of a plan. An executor binds them to real memory.
enum class Memory : std::uint8_t {
  input,    ///< what the rank contributes; never written
  output,   ///< the result; an in-place operation starts with its contribution here
  scratch,  ///< `Plan::scratch` elements that belong to the executor
  staging,  ///< `Plan::staging` elements that belong to the executor, in memory that the node's ranks share
};

/// Elements `offset` … `offset + count` of one memory, or of one of the rank's inputs, or of one part if it consists of
/// a part for each rank.
struct Range {
  Memory memory = Memory::output;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  int leaf = 0;  ///< index of the rank's input; 0 for the other memories
  friend bool operator==(const Range&, const Range&) = default;
};

/// Sends `from` to `peer`. The range must not change until the step is done.
struct Send {
  int peer;
  Range from;
};
/// Overwrites `to` with the data that `peer` sends.
struct Receive {
  int peer;
  Range to;
};
/// Which operand of a ⊕ b comes first. It decides the bits of the result if both are NaNs, or both zeros of a maximum
/// or minimum. Ranks that compute the same sum must name the operands in the same order.
enum class FirstOperand : std::uint8_t {
  own,    ///< what the rank has where the result goes, or its `own` operand
  other,  ///< what it receives, or `from`
};

/// to = (received from `peer`) ⊕ own, or own ⊕ (received); `own` may equal `to`.
struct ReceiveReduce {
  int peer;
  Range to;
  Range own;
  FirstOperand first = FirstOperand::other;
};
/// to = from.
struct Copy {
  Range to;
  Range from;
};
/// to = to ⊕ from, or from ⊕ to.
struct Reduce {
  Range to;
  Range from;
  FirstOperand first = FirstOperand::own;
};
/// to = the operation's neutral element, the contribution of a rank without leaves.
struct Fill {
  Range to;
};

/// The rank that owns the plan.
inline constexpr int self = -1;

/// A range of the input, output or staging area of a rank of the same node, or of any memory of `self`. If the other
/// rank's plan has a staging area, it is the same range of the staging area, since no other rank can access its input
/// and output.
/// Several inputs of a rank are staged one after the other, with a block's elements each.
struct NodeRange {
  int rank = self;
  Range range;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

/// Signals the other ranks of the node that all earlier steps in the list are done. A rank's phases count up from 0.
struct Publish {
  int phase;
};
/// Waits until each of `peers`, other ranks of the node, has published `phase`.
struct Await {
  std::vector<int> peers;
  int phase;
  /// Whether every rank of the node has then published phase 0, because the peers have awaited those that this rank has
  /// not.
  bool hears_of_all = false;
};
/// The order in which a Combine adds its sources.
enum class AdditionOrder : std::uint8_t {
  left_to_right,
  canonical,  ///< see expression.hpp; every sum is rounded to the type, as it is in messages
};

/// Each range of `to` = the sum of `from`, straight out of and into the memory of the node's ranks. A single source is
/// copied. Any of `to` may equal any of `from`.
struct Combine {
  std::vector<NodeRange> to;
  std::vector<NodeRange> from;
  AdditionOrder order = AdditionOrder::left_to_right;
  /// Number of leaves of each source, for the canonical order, if a source is a sum of several; empty: one each.
  std::vector<int> widths{};
};

using Step = std::variant<Send, Receive, ReceiveReduce, Copy, Reduce, Fill, Publish, Await, Combine>;

/// One rank's part of a collective.
///
/// Steps are listed in an order in which they could run one by one if every message were buffered. A step may start as
/// soon as the earlier steps that it conflicts with are done (they touch the same elements, and at least one of the two
/// writes), and as soon as the earlier steps of the same direction with the same peer have started, because messages
/// between two ranks match in order. A message without elements is a signal, which is sent only when the signals listed
/// before it have arrived. A ReceiveReduce waits for the one `landing_buffers` before it. A Publish waits for all steps
/// before it, an Await for the Publish before it, and all steps after an Await for the Await. `dependencies()` derives
/// all of this.
struct Plan {
  std::vector<Step> steps;
  Count scratch;
  Count staging;
};

/// Number of messages of one plan that may be in flight into a ReceiveReduce at a time. An executor keeps a buffer for
/// each, so on many ranks they must not all be posted at once.
inline constexpr int landing_buffers = 4;

/// The dependencies of a step: indices of earlier steps.
struct Dependencies {
  std::vector<int> done;     ///< must be complete
  std::vector<int> started;  ///< must have been posted
};

/// Number of blocks of a channel that the ranks of a node keep apart, see `prove_succession`.
inline constexpr int slots_of_a_channel = 2;

/// Returns one entry for each step, without dependencies that follow by transitivity if those are cheap to detect.
std::vector<Dependencies> dependencies(const Plan& plan);

// The ranges and peers of a step, for code that treats all kinds of steps alike.

enum class Direction : std::uint8_t { send, receive };

/// A step's half of a message.
struct Message {
  int peer;
  Direction direction;
  std::int64_t count;
};

/// Returns the step's half of a message; nothing for a local step.
std::optional<Message> message(const Step& step);

/// The ranges that a step reads and those that it writes.
class Accesses {
 public:
  explicit Accesses(const Step& step);
  [[nodiscard]] std::span<const NodeRange> reads() const { return reads_; }
  [[nodiscard]] std::span<const NodeRange> writes() const { return writes_; }

 private:
  std::vector<NodeRange> reads_;
  std::vector<NodeRange> writes_;
};

/// Combines lambdas, one for each kind of step, into one visitor for std::visit.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace lockstep::collectives
