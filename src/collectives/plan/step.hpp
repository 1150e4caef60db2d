// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/plan/plan.hpp"

/// The ranges and peers of a step, for code that treats all kinds of steps alike.
namespace lockstep::collectives {

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
