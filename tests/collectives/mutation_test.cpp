// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>

#include "collectives/plan/plan.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

/// Changes correct plans in every possible way of a kind and checks that the simulator detects each change.
namespace lockstep::collectives {
namespace {

struct Subject {
  Subject(Trial trial_in, int ranks_in, Algorithm algorithm_in)
      : trial(std::move(trial_in)), ranks(ranks_in), algorithm(algorithm_in) {}

  Trial trial;
  int ranks;
  Algorithm algorithm;
  ClusterShape shape;
  Reaches reaches = Reaches(1, Reach::direct);
  int ranks_per_cache = 0;
};

std::ostream& operator<<(std::ostream& out, const Subject& s) {
  return out << name(s.trial.kind) << " " << name(s.algorithm) << ", " << s.ranks << " ranks, " << s.trial.count.value
             << " elements, root " << s.trial.root.value << ", " << s.shape.nodes() << " nodes, reach "
             << static_cast<int>(s.reaches.back()) << ", " << s.ranks_per_cache << " ranks of a cache";
}

/// Adds operations of ranks that share memory: on one node, and all-reduces on several. With staged data, operations
/// other than all-reduce wait for more than necessary, so that one plan works for any reach of the other ranks.
void add_shared(int ranks, std::vector<Subject>& all) {
  Subject subject({}, ranks, Algorithm::shared_memory);
  subject.trial.root = {1};
  subject.trial.count = {2 * ranks + 1};
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::reduce, CollectiveKind::all_to_all,
                                    CollectiveKind::gather, CollectiveKind::scatter}) {
    subject.trial.kind = kind;
    subject.trial.in_place = kind != CollectiveKind::all_to_all;
    all.push_back(subject);
  }
  for (const CollectiveKind kind : {CollectiveKind::all_gather_v, CollectiveKind::reduce_scatter_v}) {
    Subject parts = subject;
    parts.trial = with_parts({.kind = kind, .count = {4}}, ranks, 4);  // a rank with an empty part need not be awaited
    all.push_back(parts);
  }
  subject.trial.kind = CollectiveKind::all_reduce;
  subject.trial.in_place = true;
  subject.trial.count = {4 * ranks};
  for (const Reaches& reaches : {Reaches{Reach::pulled}, Reaches{Reach::direct, Reach::staged}}) {
    subject.reaches = reaches;
    all.push_back(subject);
  }
  // In a cache with fewer ranks, not every rank's sum is read.
  for (const Reach reach : {Reach::pulled, Reach::direct, Reach::staged}) {
    if (ranks % 2 != 0) continue;
    Subject by_cache = subject;
    by_cache.algorithm = Algorithm::hierarchical_tree_order;
    by_cache.reaches = {reach};
    by_cache.ranks_per_cache = 2;
    all.push_back(by_cache);
  }
  for (int rank = 0; rank < ranks; ++rank) subject.shape.node_of_rank.push_back(rank < (ranks + 1) / 2 ? 0 : 1);
  for (const Algorithm algorithm : {Algorithm::hierarchical_ring, Algorithm::hierarchical_recursive_doubling})
    for (const Reach reach : {Reach::direct, Reach::staged}) {
      subject.algorithm = algorithm;
      subject.reaches = {reach};
      for (const int ranks_per_cache : {0, 2}) {
        subject.ranks_per_cache = ranks_per_cache;
        all.push_back(subject);
      }
    }
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 11}) {
    for (const Algorithm algorithm : message_algorithms)
      for (const std::int64_t count : {ranks - 1, 2 * ranks + 1}) {
        all.push_back({{.count = {count}, .in_place = true}, ranks, algorithm});
        std::vector<int> leaves(static_cast<std::size_t>(ranks), 1);
        leaves.front() = 3;
        if (count < ranks) leaves.back() = 0;
        all.push_back({{.count = {count}, .leaves = leaves}, ranks, algorithm});
      }
    for (const CollectiveKind kind :
         {CollectiveKind::broadcast, CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::reduce,
          CollectiveKind::all_to_all, CollectiveKind::barrier, CollectiveKind::gather, CollectiveKind::scatter})
      all.push_back(
          {{.kind = kind, .count = {kind == CollectiveKind::barrier ? 0 : 3}, .root = {1}}, ranks, Algorithm::ring});
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather_v, CollectiveKind::reduce_scatter_v, CollectiveKind::all_to_all_v})
      all.push_back({with_parts({.kind = kind, .count = {4}}, ranks, 1), ranks, Algorithm::ring});
    std::vector<int> leaves(static_cast<std::size_t>(ranks), 1);
    leaves.back() = 2;
    all.push_back({{.kind = CollectiveKind::reduce, .count = {3}, .root = {1}, .leaves = leaves, .in_place = true},
                   ranks,
                   Algorithm::ring});
    add_shared(ranks, all);
  }
  return all;
}

/// Returns whether the simulator, or the comparison with the correct results, detects a difference.
class Detector {
 public:
  explicit Detector(const Subject& subject)
      : subject_(subject),
        plans_(plans_of(subject.trial, subject.ranks, subject.algorithm, subject.shape, subject.reaches, 2,
                        subject.ranks_per_cache)) {
    const Simulation right = simulate(plans_, subject.trial);
    EXPECT_TRUE(is_right(right)) << subject;
    results_ = printed(right);
  }

  [[nodiscard]] const std::vector<Plan>& plans() const { return plans_; }
  [[nodiscard]] bool sees(const std::vector<Plan>& mutant) const {
    const Simulation simulation = simulate(mutant, subject_.trial);
    return simulation.fault || printed(simulation) != results_;
  }

 private:
  static std::vector<std::string> printed(const Simulation& simulation) {
    std::vector<std::string> text;
    for (const auto& result : simulation.results)
      for (const ResultPiece& piece : result)
        text.push_back(std::to_string(piece.offset) + ":" + simulation.expressions.to_string(piece.value));
    return text;
  }

  Subject subject_;
  std::vector<Plan> plans_;
  std::vector<std::string> results_;
};

std::vector<Step>& steps_of(std::vector<Plan>& plans, int rank) { return plans[static_cast<std::size_t>(rank)].steps; }

TEST(Mutation, DroppedStepIsDetected) {
  for (const Subject& subject : subjects()) {
    const Detector detector(subject);
    for (int rank = 0; rank < subject.ranks; ++rank)
      for (std::size_t s = 0; s < detector.plans()[static_cast<std::size_t>(rank)].steps.size(); ++s) {
        auto mutant = detector.plans();
        auto& steps = steps_of(mutant, rank);
        steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(s));
        EXPECT_TRUE(detector.sees(mutant)) << subject << ": rank " << rank << " without step " << s;
      }
  }
}

TEST(Mutation, DroppedMessageIsDetected) {
  for (const Subject& subject : subjects()) {
    const Detector detector(subject);
    for (const auto& [send, receive] : match(detector.plans()).matches) {
      auto mutant = detector.plans();
      for (const StepId half : {send, receive}) {
        auto& steps = steps_of(mutant, half.rank);
        steps.erase(steps.begin() + half.step);
      }
      EXPECT_TRUE(detector.sees(mutant)) << subject << ": without step " << send.step << " of rank " << send.rank;
    }
  }
}

TEST(Mutation, DoubledMessageIsDetected) {
  for (const Subject& subject : subjects()) {
    const Detector detector(subject);
    for (const auto& [send, receive] : match(detector.plans()).matches) {
      auto mutant = detector.plans();
      for (const StepId half : {send, receive}) {
        auto& steps = steps_of(mutant, half.rank);
        const Step step = steps[static_cast<std::size_t>(half.step)];
        steps.insert(steps.begin() + half.step, step);
      }
      EXPECT_TRUE(detector.sees(mutant)) << subject << ": step " << send.step << " of rank " << send.rank << " twice";
    }
  }
}

TEST(Mutation, DoubledHalfOfAMessageIsDetected) {
  for (const Subject& subject : subjects()) {
    const Detector detector(subject);
    for (const auto& [send, receive] : match(detector.plans()).matches)
      for (const StepId half : {send, receive}) {
        auto mutant = detector.plans();
        auto& steps = steps_of(mutant, half.rank);
        const Step step = steps[static_cast<std::size_t>(half.step)];
        steps.insert(steps.begin() + half.step, step);
        EXPECT_TRUE(detector.sees(mutant)) << subject << ": step " << half.step << " of rank " << half.rank << " twice";
      }
  }
}

/// Exchanges the operands of an addition. @return whether the step is one
bool swap_operands(Step& step) {
  const auto other = [](FirstOperand first) {
    return first == FirstOperand::own ? FirstOperand::other : FirstOperand::own;
  };
  auto* received = std::get_if<ReceiveReduce>(&step);
  auto* local = std::get_if<Reduce>(&step);
  auto* combined = std::get_if<Combine>(&step);
  if (received != nullptr) received->first = other(received->first);
  if (local != nullptr) local->first = other(local->first);
  const bool swaps_sources = combined != nullptr && combined->from.size() == 2;
  if (swaps_sources) std::swap(combined->from[0], combined->from[1]);
  return received != nullptr || local != nullptr || swaps_sources;
}

/// Two NaNs, or two zeros of a maximum, give other bits in another order. The sum of a neutral element does not depend
/// on it.
TEST(Mutation, SwappedOperandsAreDetected) {
  for (const Subject& subject : subjects()) {
    if (!subject.trial.leaves.empty() && subject.trial.leaves.back() == 0) continue;
    const Detector detector(subject);
    for (int rank = 0; rank < subject.ranks; ++rank)
      for (std::size_t s = 0; s < detector.plans()[static_cast<std::size_t>(rank)].steps.size(); ++s) {
        auto mutant = detector.plans();
        if (!swap_operands(steps_of(mutant, rank)[s])) continue;
        EXPECT_TRUE(detector.sees(mutant)) << subject << ": rank " << rank << ", operands of step " << s;
      }
  }
}

/// In a barrier of a number of ranks that is not a power of two, some signals say more than necessary and need not
/// wait. Neutral elements may be added at any time.
bool every_dependency_matters(const Subject& subject) {
  if (!subject.trial.leaves.empty() && subject.trial.leaves.back() == 0) return false;
  return subject.trial.kind != CollectiveKind::barrier || (subject.ranks & (subject.ranks - 1)) == 0;
}

/// Publishing or awaiting slightly earlier or later than necessary is not always wrong.
bool only_synchronizes(const Step& step) {
  return std::holds_alternative<Publish>(step) || std::holds_alternative<Await>(step);
}

/// If a part is empty, a part that was sent may be replaced by another of the same length, because the sends are the
/// same.
bool are_the_same_send(const Step& a, const Step& b) {
  const auto* first = std::get_if<Send>(&a);
  const auto* second = std::get_if<Send>(&b);
  return first != nullptr && second != nullptr && first->peer == second->peer && first->from == second->from;
}

/// What has come into the own staging area may be fetched before or after other ranks are told something.
bool only_fetches(const Step& earlier, const Step& later) {
  const auto* copy = std::get_if<Copy>(&earlier);
  return copy != nullptr && copy->from.memory == Memory::staging && std::holds_alternative<Publish>(later);
}

TEST(Mutation, SwappedDependentStepsAreDetected) {
  for (const Subject& subject : subjects()) {
    if (!every_dependency_matters(subject)) continue;
    const Detector detector(subject);
    for (int rank = 0; rank < subject.ranks; ++rank) {
      const auto waits_for = dependencies(detector.plans()[static_cast<std::size_t>(rank)]);
      for (std::size_t later = 0; later < waits_for.size(); ++later) {
        std::vector<int> earlier = waits_for[later].done;
        earlier.insert(earlier.end(), waits_for[later].started.begin(), waits_for[later].started.end());
        for (const int e : earlier) {
          auto mutant = detector.plans();
          auto& steps = steps_of(mutant, rank);
          if (only_synchronizes(steps[static_cast<std::size_t>(e)]) && only_synchronizes(steps[later])) continue;
          if (are_the_same_send(steps[static_cast<std::size_t>(e)], steps[later])) continue;
          if (only_fetches(steps[static_cast<std::size_t>(e)], steps[later])) continue;
          std::swap(steps[static_cast<std::size_t>(e)], steps[later]);
          EXPECT_TRUE(detector.sees(mutant)) << subject << ": rank " << rank << ", steps " << e << " and " << later;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
