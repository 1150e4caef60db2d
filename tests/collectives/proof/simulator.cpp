// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/simulator.hpp"

#include <algorithm>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

/// Executes the steps on symbols.
class Replay {
 public:
  Replay(std::span<const Plan> plans, const Trial& trial, Expressions& expressions)
      : plans_(plans),
        trial_(trial),
        expressions_(expressions),
        all_leaves_(first_leaf(trial, static_cast<int>(plans.size()))) {
    for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank)
      memories_.emplace_back(trial, static_cast<int>(plans.size()), rank, expressions);
  }

  void execute(const TimelineEvent& event) {
    at_ = {event.rank, event.step};
    if (event.peer < 0) {
      std::visit(Overloaded{
                     [&](const Copy& s) { write(s.to, read(s.from)); },
                     [&](const Reduce& s) { write(s.to, sum(read(s.to), read(s.from), s.first)); },
                     [&](const Combine& s) { combine(s); },
                     [&](const Fill& s) {
                       const Expression own = expressions_.leaf(filler(all_leaves_, at_.rank));
                       write(s.to, {{0, s.to.count, {.value = own, .filled = true}}});
                     },
                     [](const auto&) {},
                 },
                 step());
      return;
    }
    const std::vector<Piece> sent = read(std::get<Send>(step()).from);
    at_ = {event.peer, event.peer_step};
    if (const auto* add = std::get_if<ReceiveReduce>(&step()))
      overwrite(add->to, sum(read(add->own), sent, add->first));
    if (const auto* receive = std::get_if<Receive>(&step())) overwrite(receive->to, sent);
  }

  [[nodiscard]] const std::optional<Fault>& fault() const { return fault_; }
  /// Returns the content of a rank's output; offsets count from the beginning of the output.
  [[nodiscard]] std::vector<Piece> result(int rank, const std::vector<Range>& parts) {
    std::vector<Piece> all;
    for (const Range& part : parts)
      for (Piece piece : memory(rank).read(part)) {
        piece.offset += part.offset;
        if (!piece.symbol.filled) piece.symbol.shift -= part.offset;
        all.push_back(piece);
      }
    return all;
  }

 private:
  [[nodiscard]] const Step& step() const {
    return plans_[static_cast<std::size_t>(at_.rank)].steps[static_cast<std::size_t>(at_.step)];
  }
  SymbolicMemory& memory(int rank) { return memories_[static_cast<std::size_t>(rank)]; }
  void report(FaultKind kind, std::string text) {
    if (!fault_) fault_ = Fault{kind, at_.rank, at_.step, std::move(text)};
  }

  void combine(const Combine& step) {
    const auto operand = [&](int source) {
      const auto [owner, range] = seen(plans_, at_.rank, step.from[static_cast<std::size_t>(source)], trial_);
      return read(range, owner);
    };
    const auto add = [&](const std::vector<Piece>& a, const std::vector<Piece>& b) { return sum(a, b); };
    const auto sources = static_cast<int>(step.from.size());
    std::vector<Piece> result;
    switch (step.order) {
      case AdditionOrder::canonical:
        result = step.widths.empty() ? canonical_tree_fold(sources, operand, add)
                                     : canonical_node_fold(step.widths, operand, add);
        break;
      case AdditionOrder::left_to_right:
        result = operand(0);
        for (int source = 1; source < sources; ++source) result = sum(result, operand(source));
    }
    for (const NodeRange& to : step.to) {
      const auto [owner, range] = seen(plans_, at_.rank, to, trial_);
      overwrite(range, result, owner);
    }
  }

  std::vector<Piece> read(const Range& range) { return read(range, at_.rank); }
  std::vector<Piece> read(const Range& range, int owner) {
    std::vector<Piece> pieces = memory(owner).read(range);
    for (const Piece& piece : pieces)
      if (!piece.symbol.written())
        report(FaultKind::unwritten, "reads " + std::to_string(piece.count) + " elements that nothing was written to");
    return pieces;
  }
  void write(const Range& range, const std::vector<Piece>& pieces) { memory(at_.rank).write(range, pieces); }
  void overwrite(const Range& range, const std::vector<Piece>& pieces) { overwrite(range, pieces, at_.rank); }
  void overwrite(const Range& range, const std::vector<Piece>& pieces, int owner) {
    const std::vector<Piece> old = memory(owner).read(range);
    if (range.count > 0 &&
        std::equal(old.begin(), old.end(), pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.count == b.count && a.symbol == b.symbol; }))
      report(FaultKind::redundant, "brings what is there already");
    memory(owner).write(range, pieces);
  }

  std::vector<Piece> sum(const std::vector<Piece>& own, const std::vector<Piece>& other, FirstOperand first) {
    return first == FirstOperand::own ? sum(own, other) : sum(other, own);
  }
  /// Adds two lists of pieces element by element; both cover the same length.
  std::vector<Piece> sum(const std::vector<Piece>& a, const std::vector<Piece>& b) {
    std::vector<Piece> result;
    std::int64_t done = 0;
    for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
      const std::int64_t end = std::min(x->offset + x->count, y->offset + y->count);
      result.push_back({done, end - done, sum(x->symbol, y->symbol)});
      done = end;
      if (x->offset + x->count == end) ++x;
      if (y->offset + y->count == end) ++y;
    }
    return result;
  }
  Symbol sum(const Symbol& a, const Symbol& b) {
    if (!a.written() || !b.written()) return {};  // reported when the symbol was read
    if (!a.filled && !b.filled && a.shift != b.shift) report(FaultKind::misplaced, "adds different elements");
    return {expressions_.combine(a.value, b.value), a.filled ? b.shift : a.shift, a.filled && b.filled};
  }

  std::span<const Plan> plans_;
  const Trial& trial_;
  Expressions& expressions_;
  int all_leaves_;
  std::vector<SymbolicMemory> memories_;
  StepId at_{0, 0};
  std::optional<Fault> fault_;
};

std::optional<Fault> find_static_fault(std::span<const Plan> plans, const Trial& trial) {
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank)
    if (auto fault = find_malformed(plans, rank, trial)) return fault;
  if (auto fault = find_mismatch(plans)) return fault;
  if (trial.kind == CollectiveKind::all_to_all_v)
    if (auto fault = find_untold(plans, trial)) return fault;
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    const Plan& plan = plans[static_cast<std::size_t>(rank)];
    if (auto fault = find_race(plan, dependencies(plan), rank, trial)) return fault;
  }
  return std::nullopt;
}

std::optional<Fault> find_fault(std::span<const Plan> plans, const Trial& trial, Simulation& simulation) {
  if (auto fault = find_static_fault(plans, trial)) return fault;
  const Timeline timeline = run(plans, 1, {});
  if (!timeline.blocked.empty())
    return Fault{FaultKind::deadlock, timeline.blocked.front().rank, timeline.blocked.front().step,
                 std::to_string(timeline.blocked.size()) + " steps wait for each other"};
  if (auto fault = find_race_between_ranks(plans, timeline, trial)) return fault;
  if (trial.kind == CollectiveKind::barrier) return find_uninformed(plans);

  Replay replay(plans, trial, simulation.expressions);
  for (const TimelineEvent& event : timeline.events) replay.execute(event);
  if (replay.fault()) return replay.fault();
  const int ranks = static_cast<int>(plans.size());
  std::vector<std::vector<Piece>> outputs;
  outputs.reserve(plans.size());
  for (int rank = 0; rank < ranks; ++rank) outputs.push_back(replay.result(rank, parts_of_output(trial, ranks, rank)));
  if (auto fault = find_wrong_result(outputs, trial, simulation.expressions)) return fault;
  const int fillers = first_leaf(trial, ranks);
  for (const auto& output : outputs) {
    auto& pieces = simulation.results.emplace_back();
    for (const Piece& piece : output)
      pieces.push_back(
          {piece.offset, piece.count, simulation.expressions.without_leaves_from(fillers, piece.symbol.value)});
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(FaultKind kind) {
  switch (kind) {
    case FaultKind::malformed: return "malformed";
    case FaultKind::unmatched: return "unmatched";
    case FaultKind::unequal_counts: return "unequal counts";
    case FaultKind::deadlock: return "deadlock";
    case FaultKind::race: return "race";
    case FaultKind::unwritten: return "unwritten";
    case FaultKind::misplaced: return "misplaced";
    case FaultKind::redundant: return "redundant";
    case FaultKind::missing: return "missing";
    case FaultKind::doubled: return "doubled";
    case FaultKind::unequal: return "unequal";
  }
  return "unknown";
}

Simulation simulate(std::span<const Plan> plans, const Trial& trial) {
  Simulation simulation;
  simulation.fault = find_fault(plans, trial, simulation);
  return simulation;
}

}  // namespace lockstep::collectives
