// SPDX-License-Identifier: Apache-2.0
// In every collective step, the others name a rank that does not come, and do not wait forever.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/phase.hpp"
#include "support/verdict.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Step = std::function<void(const RankSet&)>;

class MissingRank : public testing::Test {
 protected:
  MissingRank() : group_(world_.group().dup()) { group_.set_deadline(300ms); }
  void TearDown() override {
    group_.close();
    world_.close();
  }

  /// Expects the error on all ranks except `missing` in a step that this rank does not make. Afterwards all ranks meet.
  void expect_named(Rank missing, const Step& step, const std::string& what) {
    if (world_.rank() != missing) {
      const auto begin = Clock::now();
      const std::string told = message_of([&] { step(group_); });
      EXPECT_LT(Clock::now() - begin, 10s);
      EXPECT_EQ(told.find("rank " + std::to_string(missing.value) + " on " + world_.host() + " has not " + what), 0U)
          << told;
    }
    come_together();
  }
  /// Meets without lockstep, so that a rank that waits here does not answer the others.
  static void come_together() { MPI_Barrier(MPI_COMM_WORLD); }
  /// Runs the step once without the first rank, and once without the last.
  void expect_each_named(const Step& step, const std::string& what) {
    expect_named(Rank{0}, step, what);
    expect_last_named(step, what);
  }
  void expect_last_named(const Step& step, const std::string& what) {
    renew();
    expect_named(Rank{world_.size() - 1}, step, what);
  }
  void renew() {
    group_.close();
    group_ = world_.group().dup();
    group_.set_deadline(300ms);
  }

  static std::string message_of(const std::function<void()>& step) {
    try {
      step();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      return error.message();
    }
    return "nothing";
  }

  World world_;
  RankSet group_;
};

TEST_F(MissingRank, IsNamedByABarrier) {
  expect_each_named([](const RankSet& group) { barrier(group); }, "joined in exchanging data within 0.3 s");
}

TEST_F(MissingRank, IsNamedWithThePhase) {
  const auto load = [](const RankSet& group) {
    const Phase phase(group, "loading the data set 'x'", Phase::Kind::work);
    agree(group, [] {});
  };
  expect_each_named(load, "finished loading the data set 'x' within 0.3 s");
}

TEST_F(MissingRank, IsNamedByGathersAndBroadcasts) {
  const std::string what = "joined in exchanging data";
  expect_last_named([](const RankSet& group) { (void)group.exchange("text"); }, what);
  expect_last_named([](const RankSet& group) { (void)gather_strings(group, "text", Rank{0}); }, what);
  renew();
  expect_named(
      Rank{0}, [](const RankSet& group) { (void)broadcast_string(group, "text", Rank{0}); }, what);
}

TEST_F(MissingRank, IsNamedWhereCommunicatorsAreMade) {
  const std::string what = "joined in exchanging data";
  expect_last_named([](const RankSet& group) { group.dup().close(); }, what);
  expect_last_named([](const RankSet& group) { group.split(0, 0)->close(); }, what);
  expect_last_named([](const RankSet& group) { (void)make_control_channel(group, group.shape()); }, what);
}

TEST_F(MissingRank, IsNamedWhereMemoryIsShared) {
  const auto share = [](const RankSet& group) {
    std::string why_not;
    (void)make_node_memory(group, {}, why_not);
  };
  expect_last_named(share, "joined in sharing memory of the node within 0.3 s");
}

TEST_F(MissingRank, OnlyTheFirstRankThatWaitsReportsIt) {
  if (world_.size() < 3) LOCKSTEP_SKIP(ranks) << "one rank alone waits";
  bool is_consequence = false;
  if (world_.rank() != Rank{1}) {
    try {
      barrier(group_);
      ADD_FAILURE() << "the barrier ended without rank 1";
    } catch (const Error& error) {
      is_consequence = error.is_consequence();
    }
  }
  EXPECT_EQ(is_consequence, world_.rank().value > 1);
  come_together();
}

TEST_F(MissingRank, LeavesAGroupThatCanOnlyBeClosed) {
  if (world_.rank() != Rank{0}) {
    const std::string first = message_of([&] { barrier(group_); });
    EXPECT_EQ(message_of([&] { barrier(group_); }), first);
    EXPECT_EQ(message_of([&] { (void)group_.dup(); }), first);
  }
  come_together();
}

TEST_F(MissingRank, IsToldApartFromOneThatWaitsElsewhere) {
  RankSet other = group_.dup();
  const std::string told = message_of([&] {
    const Phase phase(group_, world_.rank() == Rank{0} ? "making tea" : "making coffee");
    barrier(world_.rank() == Rank{0} ? group_ : other);
  });
  EXPECT_EQ(told.find("the ranks wait for each other in different places: rank "), 0U) << told;
  EXPECT_NE(told.find("while making tea"), std::string::npos) << told;
  EXPECT_NE(told.find("while making coffee"), std::string::npos) << told;
  come_together();
  other.close();
}

TEST_F(MissingRank, MayComeLateWithinTheDeadline) {
  group_.set_deadline(60s);
  if (world_.rank() == Rank{0}) std::this_thread::sleep_for(500ms);
  barrier(group_);
  const Phase phase(group_, "measuring", Phase::Kind::work, Phase::Seconds(60));
  group_.set_deadline(100ms);  // the phase's own time is added
  if (world_.rank() == Rank{0}) std::this_thread::sleep_for(500ms);
  barrier(group_);
}

/// Ranks come at about the deadline of the others. Either all continue, or all get the error.
TEST_F(MissingRank, ComesWhenTheOthersAskAndAllDoTheSame) {
  for (int round = 0; round < 6; ++round) {
    RankSet group = world_.group().dup();
    group.set_deadline(50ms);
    if (world_.rank().value == round % world_.size()) std::this_thread::sleep_for(50ms + 90ms * round);
    const std::string told = message_of([&] { barrier(group); });
    const auto all = all_gather_numbers(world_.group(), told == "nothing" ? 1 : 0);
    EXPECT_TRUE(std::equal(all.begin() + 1, all.end(), all.begin())) << "round " << round << ": " << told;
    group.close();
  }
}

}  // namespace
}  // namespace lockstep
