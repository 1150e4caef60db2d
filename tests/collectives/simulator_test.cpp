// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/simulator.hpp"

#include <gtest/gtest.h>

#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

constexpr Range output(std::int64_t offset, std::int64_t count) { return {Memory::output, offset, count}; }
constexpr Range input(std::int64_t offset, std::int64_t count) { return {Memory::input, offset, count}; }
constexpr Range scratch(std::int64_t offset, std::int64_t count) { return {Memory::scratch, offset, count}; }

const Trial all_reduce{.count = {4}, .in_place = true};

FaultKind fault_of(const std::vector<Plan>& plans, const Trial& trial = all_reduce) {
  const Simulation simulation = simulate(plans, trial);
  if (!simulation.fault) throw std::logic_error("the plans are right");
  return simulation.fault->kind;
}

/// Returns the plans of two ranks that do the same with each other.
std::vector<Plan> both(const std::function<std::vector<Step>(int peer)>& steps, Count scratch_count = {}) {
  return {{steps(1), scratch_count}, {steps(0), scratch_count}};
}

TEST(Simulator, SendsThatAwaitEachOtherAreADeadlock) {
  // Each send must complete before its buffer is added to, but completes only when the peer receives.
  EXPECT_EQ(fault_of(both([](int peer) -> std::vector<Step> {
              return {Send{peer, output(0, 4)}, ReceiveReduce{peer, output(0, 4), output(0, 4)}};
            })),
            FaultKind::deadlock);
}

TEST(Simulator, UnmatchedAndUnequalHalvesAreFaults) {
  EXPECT_EQ(fault_of({{{Send{1, output(0, 4)}}, {}}, {}}), FaultKind::unmatched);
  EXPECT_EQ(fault_of({{{Send{1, output(0, 4)}}, {}}, {{Receive{0, output(0, 3)}}, {}}}), FaultKind::unequal_counts);
}

TEST(Simulator, MalformedStepsAreFaults) {
  EXPECT_EQ(fault_of({{{Fill{output(1, 4)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Fill{scratch(0, 1)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Fill{input(0, 4)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Copy{output(0, 2), output(2, 1)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Reduce{output(0, 2), output(1, 2)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Send{0, output(0, 2)}}, {}}}), FaultKind::malformed);
  EXPECT_EQ(fault_of({{{Send{7, output(0, 2)}}, {}}}), FaultKind::malformed);
}

TEST(Simulator, ReadingWhatWasNotWrittenIsAFault) {
  const Plan reads_scratch{{Reduce{output(0, 4), scratch(0, 4)}}, {4}};
  EXPECT_EQ(fault_of({reads_scratch}), FaultKind::unwritten);
  EXPECT_EQ(fault_of({Plan{}}, {.count = {4}}), FaultKind::unwritten);  // out of place, and no rank copies
}

TEST(Simulator, AddingDifferentElementsIsAFault) {
  EXPECT_EQ(fault_of({{{Reduce{output(0, 2), output(2, 2)}}, {}}}), FaultKind::misplaced);
  EXPECT_EQ(fault_of({{{Copy{output(0, 2), output(2, 2)}}, {}}}), FaultKind::misplaced);
}

TEST(Simulator, LeavesMissingOrDoubledAreFaults) {
  EXPECT_EQ(fault_of({Plan{}, Plan{}}), FaultKind::missing);
  const auto twice = [](int peer) -> std::vector<Step> {
    return {Copy{scratch(0, 4), output(0, 4)}, Send{peer, scratch(0, 4)},
            ReceiveReduce{peer, output(0, 4), output(0, 4)}, Send{peer, scratch(0, 4)},
            ReceiveReduce{peer, output(0, 4), output(0, 4)}};
  };
  EXPECT_EQ(fault_of(both(twice, {4})), FaultKind::doubled);
}

TEST(Simulator, MessageWithoutEffectIsAFault) {
  const std::vector<Plan> plans{{{Send{1, output(0, 4)}, Send{1, output(0, 4)}}, {}},
                                {{Receive{0, output(0, 4)}, Receive{0, output(0, 4)}}, {}}};
  EXPECT_EQ(fault_of(plans, {.kind = CollectiveKind::broadcast, .count = {4}}), FaultKind::redundant);
}

TEST(Simulator, AnotherOrderOnAnotherRankIsAFault) {
  // Each rank sends its contribution to the two others and adds the received ones in an order of its own choice.
  const auto plan = [](int first, int second) {
    return Plan{{Copy{scratch(0, 4), output(0, 4)}, Send{first, scratch(0, 4)}, Send{second, scratch(0, 4)},
                 ReceiveReduce{first, output(0, 4), output(0, 4)}, ReceiveReduce{second, output(0, 4), output(0, 4)}},
                {4}};
  };
  EXPECT_EQ(fault_of({plan(1, 2), plan(0, 2), plan(0, 1)}), FaultKind::unequal);
}

TEST(Simulator, BarrierThatDoesNotWaitIsAFault) {
  // Round 1 signals before it has received the signal of round 0.
  std::vector<Plan> plans;
  for (int me = 0; me < 4; ++me)
    plans.push_back({{Send{(me + 1) % 4, output(0, 0)}, Send{(me + 2) % 4, output(0, 0)},
                      Receive{(me + 3) % 4, output(0, 0)}, Receive{(me + 2) % 4, output(0, 0)}},
                     {}});
  EXPECT_EQ(fault_of(plans, {.kind = CollectiveKind::barrier}), FaultKind::missing);
}

TEST(FindRace, SeesAConflictThatNobodyWaitsFor) {
  const Plan plan{{Receive{1, output(0, 4)}, Copy{scratch(0, 4), output(0, 4)}, Send{1, scratch(3, 1)}}, {4}};
  auto waits_for = dependencies(plan);
  EXPECT_FALSE(find_race(plan, waits_for, 0, all_reduce));
  waits_for[1].done.clear();
  ASSERT_TRUE(find_race(plan, waits_for, 0, all_reduce));
  EXPECT_EQ(find_race(plan, waits_for, 0, all_reduce)->step, 1);
}

TEST(FindRace, KnowsThatInPlaceTheOutputIsAPartOfTheInput) {
  // It sends its own part of the input while it receives the result into the output.
  const Plan plan{{Send{1, input(0, 4)}, Receive{1, output(0, 4)}}, {}};
  const Trial out_of_place{.kind = CollectiveKind::reduce_scatter, .count = {4}};
  const Trial in_place{.kind = CollectiveKind::reduce_scatter, .count = {4}, .in_place = true};
  EXPECT_FALSE(find_race(plan, dependencies(plan), 0, out_of_place));
  EXPECT_TRUE(find_race(plan, dependencies(plan), 0, in_place));
}

TEST(Simulator, CostsNothingForLargeCounts) {
  const Trial trial{.count = {std::int64_t{1} << 50}, .in_place = true};
  EXPECT_TRUE(is_right(simulate(plans_of(trial, 16, Algorithm::ring), trial)));
}

}  // namespace
}  // namespace lockstep::collectives
