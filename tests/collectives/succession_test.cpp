// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/proof/simulator.hpp"
#include "collectives/trials.hpp"

/// Tests successive operations on one channel of a node, which use its slots in turn.
namespace lockstep::collectives {
namespace {

/// An operation of a succession, for any number of ranks.
struct Kind {
  CollectiveKind kind;
  Algorithm algorithm = Algorithm::shared_memory;
  int root = 0;
  bool pulled = false;
  int ranks_per_cache = 0;
};

const std::vector<Kind> kinds{
    {CollectiveKind::all_reduce},
    {.kind = CollectiveKind::all_reduce, .pulled = true},
    {.kind = CollectiveKind::all_reduce, .algorithm = Algorithm::hierarchical_tree_order},
    {.kind = CollectiveKind::all_reduce,
     .algorithm = Algorithm::hierarchical_tree_order,
     .pulled = true,
     .ranks_per_cache = 2},
    {.kind = CollectiveKind::all_reduce, .algorithm = Algorithm::hierarchical_tree_order, .ranks_per_cache = 2},
    {CollectiveKind::all_gather},
    {CollectiveKind::reduce_scatter},
    {CollectiveKind::all_to_all},
    {CollectiveKind::barrier},
    {CollectiveKind::broadcast},
    {.kind = CollectiveKind::broadcast, .root = 1},
    {CollectiveKind::reduce},
    {.kind = CollectiveKind::reduce, .root = 1},
    {CollectiveKind::all_gather_v},
    {CollectiveKind::reduce_scatter_v},
    {CollectiveKind::gather},
    {.kind = CollectiveKind::gather, .root = 1},
    {CollectiveKind::scatter},
    {.kind = CollectiveKind::scatter, .root = 1},
    {CollectiveKind::scan},
    {CollectiveKind::exclusive_scan},
};

/// How the data of each rank are reached: all alike, or one rank's differently.
enum class Pattern { direct, staged, first_is_staged, last_is_staged, first_is_direct };
constexpr Pattern patterns[] = {Pattern::direct, Pattern::staged, Pattern::first_is_staged, Pattern::last_is_staged,
                                Pattern::first_is_direct};

Reaches reaches_of(Pattern pattern, int ranks) {
  const auto all = [&](Reach reach) { return Reaches(static_cast<std::size_t>(ranks), reach); };
  Reaches result =
      all(pattern == Pattern::staged || pattern == Pattern::first_is_direct ? Reach::staged : Reach::direct);
  if (pattern == Pattern::first_is_staged) result.front() = Reach::staged;
  if (pattern == Pattern::first_is_direct) result.front() = Reach::direct;
  if (pattern == Pattern::last_is_staged) result.back() = Reach::staged;
  return result;
}

Turn turn_of(const Kind& kind, int ranks, Pattern pattern, bool in_place, const ClusterShape& shape = {}) {
  Trial trial{.kind = kind.kind,
              .count = {kind.kind == CollectiveKind::barrier ? 0 : ranks + 1},
              .root = {kind.root % ranks},
              .in_place = in_place && kind.kind != CollectiveKind::all_to_all};
  if (has_part_counts(kind.kind)) trial = with_parts(trial, ranks, 4);
  const Reaches reach = kind.pulled ? Reaches{Reach::pulled} : reaches_of(pattern, ranks);
  return {trial, plans_of(trial, ranks, kind.algorithm, shape, reach, 2, kind.ranks_per_cache)};
}

std::vector<Turn> every_turn(int ranks, Pattern pattern, bool in_place) {
  std::vector<Turn> all;
  for (const Kind& kind : kinds) all.push_back(turn_of(kind, ranks, pattern, in_place));
  return all;
}

std::string text(const Fault& fault) {
  return std::string(name(fault.kind)) + " at rank " + std::to_string(fault.rank) + ", step " +
         std::to_string(fault.step) + ": " + fault.text;
}

/// Tries every ordered choice of `slots + 1` turns. @return the number of choices with a fault
int faults_among(const std::vector<Turn>& turns, const SlotRule& rule = {}, const ClusterShape& shape = {},
                 std::string* first = nullptr) {
  int faults = 0;
  for (const Turn& a : turns)
    for (const Turn& b : turns)
      for (const Turn& c : turns) {
        static_assert(slots_of_a_channel + 1 == 3);
        const Turn* const chain[] = {&a, &b, &c};
        const auto fault = prove_succession(chain, shape, rule);
        if (fault && faults++ == 0 && first != nullptr) *first = text(*fault);
      }
  return faults;
}

TEST(Succession, OfAnyKindsIsRight) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (const Pattern pattern : patterns)
      for (const bool in_place : {true, false}) {
        if (!in_place && ranks > 4) continue;  // the same except for copies of a rank's own data
        std::string first;
        EXPECT_EQ(faults_among(every_turn(ranks, pattern, in_place), {}, {}, &first), 0)
            << ranks << " ranks, pattern " << static_cast<int>(pattern) << ", " << first;
      }
}

TEST(Succession, OfHierarchicalAllReducesIsRight) {
  for (const ClusterShape& shape : equal_and_unequal_nodes())
    for (const Pattern pattern : patterns) {
      std::vector<Turn> turns;
      for (const Algorithm algorithm : {Algorithm::hierarchical_ring, Algorithm::hierarchical_double_tree,
                                        Algorithm::hierarchical_recursive_doubling})
        for (const bool in_place : {true, false})
          turns.push_back(turn_of({.kind = CollectiveKind::all_reduce, .algorithm = algorithm}, shape.ranks(), pattern,
                                  in_place, shape));
      std::string first;
      EXPECT_EQ(faults_among(turns, {}, shape, &first), 0)
          << shape.ranks() << " ranks on " << shape.nodes() << " nodes, " << first;
    }
}

/// Removes parts of the rule, and checks that each was necessary.
TEST(Succession, ByCacheOnSeveralNodesIsRight) {
  const ClusterShape shape{{0, 0, 0, 0, 1, 1, 1, 1}};
  for (const Pattern pattern : patterns) {
    std::vector<Turn> turns;
    for (const int ranks_per_cache : {0, 2})
      for (const bool in_place : {true, false})
        turns.push_back(turn_of({.kind = CollectiveKind::all_reduce,
                                 .algorithm = Algorithm::hierarchical_ring,
                                 .ranks_per_cache = ranks_per_cache},
                                8, pattern, in_place, shape));
    std::string first;
    EXPECT_EQ(faults_among(turns, {}, shape, &first), 0) << first;
  }
}

TEST(SlotRule, NeedsToLookAtThoseWhoAreNotKnownToHaveEntered) {
  EXPECT_EQ(faults_among(every_turn(2, Pattern::direct, true), {.looks = false}), 0) << "they always await each other";
  for (int ranks = 2; ranks <= 5; ++ranks)
    EXPECT_GT(faults_among(every_turn(ranks, Pattern::staged, true), {.looks = false}), 0) << ranks;
}

TEST(SlotRule, NeedsAllToHaveEnteredNoEarlierBlock) {
  for (int ranks = 3; ranks <= 5; ++ranks)
    EXPECT_GT(faults_among(every_turn(ranks, Pattern::staged, true), {.slack = 1}), 0) << ranks;
}

TEST(SlotRule, NeedsAnAwaitOfAllToKnowThatAllHaveEntered) {
  for (int ranks = 3; ranks <= 5; ++ranks)
    EXPECT_GT(faults_among(every_turn(ranks, Pattern::staged, true), {.awaits_all = false}), 0) << ranks;
}

/// A rank that has awaited the root does not know that all others have entered.
TEST(SlotRule, NeedsTheTruthAboutOfWhomARankHears) {
  for (int ranks = 3; ranks <= 5; ++ranks) {
    std::vector<Turn> turns = every_turn(ranks, Pattern::staged, true);
    Turn lie = turn_of({CollectiveKind::broadcast}, ranks, Pattern::staged, true);
    for (Plan& plan : lie.plans)
      for (Step& step : plan.steps)
        if (auto* await = std::get_if<Await>(&step)) await->hears_of_all = true;
    turns.push_back(lie);
    EXPECT_GT(faults_among(turns), 0) << ranks;
  }
}

TEST(SlotRule, NeedsTwoSlots) {
  const Turn turn = turn_of(kinds.front(), 3, Pattern::staged, true);
  const Turn* const chain[] = {&turn, &turn, &turn};
  const auto stuck = prove_succession(chain, {}, {.slots = 1});
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->kind, FaultKind::deadlock) << "one slot cannot be opened before its own block is entered";
  const auto race = prove_succession(chain, {}, {.slots = 1, .slack = 1});
  ASSERT_TRUE(race);
  EXPECT_EQ(race->kind, FaultKind::race);
}

TEST(Succession, OfPlansThatDoNotPublishFirstIsMalformed) {
  Turn turn = turn_of({CollectiveKind::barrier}, 3, Pattern::direct, false);
  std::swap(turn.plans[1].steps[0], turn.plans[1].steps[1]);
  const Simulation simulation = simulate(turn.plans, turn.trial);
  ASSERT_TRUE(simulation.fault);
  EXPECT_EQ(simulation.fault->kind, FaultKind::malformed);
  turn.plans[1].steps.clear();
  const Turn* const chain[] = {&turn, &turn, &turn};
  ASSERT_TRUE(prove_succession(chain, {}));
}

/// Returns whether the operation alone, or a succession that contains it, has a fault.
bool is_noticed(const Turn& mutant, const std::vector<Turn>& others) {
  if (simulate(mutant.plans, mutant.trial).fault) return true;
  for (const Turn& before : others)
    for (const Turn& after : others)
      for (const auto& chain : {std::vector{&mutant, &before, &after}, std::vector{&before, &mutant, &after}})
        if (prove_succession(chain, {})) return true;
  return false;
}

TEST(Succession, NeedsEachAwait) {
  for (int ranks = 2; ranks <= 4; ++ranks)
    for (const Pattern pattern : {Pattern::direct, Pattern::staged}) {
      const std::vector<Turn> others = every_turn(ranks, pattern, true);
      for (std::size_t k = 0; k < others.size(); ++k)
        for (int rank = 0; rank < ranks; ++rank) {
          const auto& steps = others[k].plans[static_cast<std::size_t>(rank)].steps;
          for (std::size_t s = 0; s < steps.size(); ++s) {
            const auto* await = std::get_if<Await>(&steps[s]);
            if (await == nullptr) continue;
            for (std::size_t peer = 0; peer < await->peers.size(); ++peer) {
              Turn mutant = others[k];
              auto& peers = std::get<Await>(mutant.plans[static_cast<std::size_t>(rank)].steps[s]).peers;
              peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(peer));
              EXPECT_TRUE(is_noticed(mutant, others))
                  << name(others[k].trial.kind) << " (" << k << "), " << ranks << " ranks, pattern "
                  << static_cast<int>(pattern) << ": rank " << rank << " does not await rank " << await->peers[peer]
                  << " in step " << s;
            }
          }
        }
    }
}

}  // namespace
}  // namespace lockstep::collectives
