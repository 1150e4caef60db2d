// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

/// The required content of some elements of a rank's output.
struct Promise {
  std::span<const int> leaves;
  std::int64_t shift;  ///< element of the leaves minus element of the output
  std::int64_t count;  ///< number of elements that it covers, from the requested element on
};

class Judge {
 public:
  Judge(const Trial& trial, int ranks, const Expressions& expressions)
      : trial_(trial),
        ranks_(ranks),
        expressions_(expressions),
        all_leaves_(static_cast<std::size_t>(first_leaf(trial, ranks))) {
    std::iota(all_leaves_.begin(), all_leaves_.end(), 0);
  }

  std::optional<Fault> judge(int rank, const std::vector<Piece>& output) {
    for (const Piece& piece : output) {
      const std::int64_t end = piece.offset + piece.count;
      for (std::int64_t at = piece.offset; at < end;) {
        const Promise promise = promised(rank, at);
        if (auto fault = judge(rank, at, piece.symbol, promise)) return fault;
        at += promise.count;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] Promise promised(int rank, std::int64_t element) const {
    const std::int64_t n = trial_.count.value;
    switch (trial_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return {all_leaves_, 0, n - element};
      case CollectiveKind::reduce_scatter_v:
      case CollectiveKind::reduce_scatter: return {all_leaves_, rank * n, n - element};
      case CollectiveKind::broadcast: return {leaf_of(trial_.root.value), 0, n - element};
      case CollectiveKind::scatter: return {leaf_of(trial_.root.value), rank * n, n - element};
      case CollectiveKind::gather:
      case CollectiveKind::all_gather_v:
      case CollectiveKind::all_gather: {
        const auto part = static_cast<int>(element / n);
        return {leaf_of(part), -part * n, n - element % n};
      }
      case CollectiveKind::all_to_all_v:
      case CollectiveKind::all_to_all: {
        const auto from = static_cast<int>(element / n);
        return {leaf_of(from), (rank - from) * n, n - element % n};
      }
      case CollectiveKind::scan: return {leaves_below(rank + 1), 0, n - element};
      case CollectiveKind::exclusive_scan: return {leaves_below(rank), 0, n - element};
      case CollectiveKind::barrier:
      case CollectiveKind::send:
      case CollectiveKind::recv: break;
    }
    return {{}, 0, ranks_ * n};
  }

  [[nodiscard]] std::span<const int> leaves_below(int rank) const {
    return std::span(all_leaves_).first(static_cast<std::size_t>(first_leaf(trial_, rank)));
  }
  [[nodiscard]] std::span<const int> leaf_of(int rank) const {
    return std::span(all_leaves_).subspan(static_cast<std::size_t>(first_leaf(trial_, rank)), 1);
  }

  std::optional<Fault> judge(int rank, std::int64_t element, const Symbol& symbol, const Promise& promise) {
    const auto fault = [&](FaultKind kind, const std::string& text) {
      return Fault{kind, rank, -1, "element " + std::to_string(element) + " of the result " + text};
    };
    if (!symbol.written()) return fault(FaultKind::unwritten, "is not written");
    if (!symbol.filled && symbol.shift != promise.shift)
      return fault(FaultKind::misplaced, "holds element " + std::to_string(element + symbol.shift));
    const Expression value = symbol.value;
    const bool is_whole = promise.leaves.size() == all_leaves_.size();
    if (is_whole && known_complete_.contains(value.id)) return std::nullopt;

    if (expressions_.size(value) > static_cast<std::int64_t>(all_leaves_.size()) + ranks_)
      return fault(FaultKind::doubled, "holds leaves more than once");
    const std::vector<int> held = expressions_.leaves(value);
    const std::string sum = "is " + expressions_.to_string(value);
    if (std::adjacent_find(held.begin(), held.end()) != held.end()) return fault(FaultKind::doubled, sum);
    const auto fillers = std::lower_bound(held.begin(), held.end(), filler(first_leaf(trial_, ranks_), 0));
    if (!std::equal(held.begin(), fillers, promise.leaves.begin(), promise.leaves.end()))
      return fault(FaultKind::missing, sum);
    if (trial_.kind == CollectiveKind::all_reduce && held.end() - fillers != ranks_without_leaves())
      return fault(FaultKind::missing, sum);
    if (is_whole) known_complete_.insert(value.id);
    return std::nullopt;
  }

  /// Returns the number of ranks without leaves. An all-reduce contains a neutral element from each of them; a
  /// reduce-scatter may omit them.
  [[nodiscard]] std::ptrdiff_t ranks_without_leaves() const {
    return std::count(trial_.leaves.begin(), trial_.leaves.end(), 0);
  }

  const Trial& trial_;
  int ranks_;
  const Expressions& expressions_;
  std::vector<int> all_leaves_;
  std::set<std::int32_t> known_complete_;  ///< expressions seen to hold all leaves once
};

/// Returns whether every rank ends with the same output.
bool is_for_all(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ||
         kind == CollectiveKind::all_gather || kind == CollectiveKind::all_gather_v;
}

bool is_same(const Piece& a, const Piece& b) {
  return a.offset == b.offset && a.count == b.count && a.symbol.value == b.symbol.value;
}

using Ranks = std::set<int>;

/// The ranks that are known to have begun, for each step once it is done.
class Knowledge {
 public:
  explicit Knowledge(std::span<const Plan> plans) {
    for (const Plan& plan : plans) {
      waits_for_.push_back(dependencies(plan));
      after_.emplace_back(plan.steps.size());
    }
  }

  /// Returns what the rank of a step is sure to know when the step begins.
  [[nodiscard]] Ranks before(StepId s) const {
    Ranks known{s.rank};
    for (const int d : waits_for_[static_cast<std::size_t>(s.rank)][static_cast<std::size_t>(s.step)].done)
      known.insert(after(s.rank)[static_cast<std::size_t>(d)].begin(),
                   after(s.rank)[static_cast<std::size_t>(d)].end());
    return known;
  }
  void learn(StepId s, const Ranks& news) {
    Ranks& known = after_[static_cast<std::size_t>(s.rank)][static_cast<std::size_t>(s.step)];
    known = before(s);
    known.insert(news.begin(), news.end());
  }
  /// Returns what a rank knows from the steps before `step`.
  [[nodiscard]] Ranks all_before(StepId s) const {
    Ranks known{s.rank};
    for (int i = 0; i < s.step; ++i)
      known.insert(after(s.rank)[static_cast<std::size_t>(i)].begin(),
                   after(s.rank)[static_cast<std::size_t>(i)].end());
    return known;
  }

 private:
  [[nodiscard]] const std::vector<Ranks>& after(int rank) const { return after_[static_cast<std::size_t>(rank)]; }

  std::vector<std::vector<Dependencies>> waits_for_;
  std::vector<std::vector<Ranks>> after_;
};

}  // namespace

std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions) {
  Judge judge(trial, static_cast<int>(outputs.size()), expressions);
  const auto& first = outputs.front();
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    const auto& output = outputs[rank];
    if (auto fault = judge.judge(static_cast<int>(rank), output)) return fault;
    if (is_for_all(trial.kind) && !std::equal(first.begin(), first.end(), output.begin(), output.end(), is_same))
      return Fault{FaultKind::unequal, static_cast<int>(rank), -1, "was added in another order than on rank 0"};
  }
  return std::nullopt;
}

std::optional<Fault> find_uninformed(std::span<const Plan> plans) {
  Knowledge knowledge(plans);
  std::map<std::pair<int, int>, std::vector<StepId>> publishers;  // by Await
  for (const Wait& wait : match_phases(plans))
    if (wait.publish) publishers[{wait.await.rank, wait.await.step}].push_back(*wait.publish);
  for (const TimelineEvent& event : run(plans, 1, {}).events) {
    if (event.peer < 0) {
      Ranks news;
      for (const StepId publish : publishers[{event.rank, event.step}]) news.merge(knowledge.before(publish));
      knowledge.learn({event.rank, event.step}, news);
      continue;
    }
    const StepId receive{event.peer, event.peer_step};
    const Ranks news = knowledge.before({event.rank, event.step});
    knowledge.learn({event.rank, event.step}, {});
    knowledge.learn(receive, news);
    const Ranks known = knowledge.all_before(receive);
    if (std::includes(known.begin(), known.end(), news.begin(), news.end()))
      return Fault{FaultKind::redundant, receive.rank, receive.step, "the signal brings no news"};
  }
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    const int steps = static_cast<int>(plans[static_cast<std::size_t>(rank)].steps.size());
    const std::size_t heard = knowledge.all_before({rank, steps}).size();
    if (heard != plans.size())
      return Fault{FaultKind::missing, rank, -1, "ends after hearing of only " + std::to_string(heard) + " ranks"};
  }
  return std::nullopt;
}

}  // namespace lockstep::collectives
