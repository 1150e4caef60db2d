// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mpi/world.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "lockstep/base/error.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

// Tests the world of a test binary, whose main() initializes and finalizes MPI.
class WorldTest : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  World world_;
};

int size_by_mpi() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

TEST_F(WorldTest, KnowsRankAndSize) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  EXPECT_EQ(world_.rank().value, rank);
  EXPECT_EQ(world_.size(), size_by_mpi());
}

TEST_F(WorldTest, RanksOfOneMachineAreOneNode) {
  EXPECT_EQ(world_.shape().node_of_rank, std::vector<int>(static_cast<std::size_t>(world_.size()), 0));
  EXPECT_EQ(world_.place().node, 0);
  EXPECT_EQ(world_.place().local_rank, world_.rank().value);
  EXPECT_EQ(world_.place().local_size, world_.size());
  EXPECT_EQ(world_.node_group().size(), world_.size());
}

TEST_F(WorldTest, NamesEveryHost) {
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(world_.hosts(), std::vector<std::string>(static_cast<std::size_t>(world_.size()), name.data()));
}

TEST_F(WorldTest, JoinsAnInitializedMpiAndLeavesItRunning) {
  world_.close();
  world_.close();
  int finalized = 1;
  MPI_Finalized(&finalized);
  EXPECT_EQ(finalized, 0);
  World again;
  EXPECT_EQ(again.size(), size_by_mpi());
  again.close();
}

TEST_F(WorldTest, MovesWithoutASecondClose) {
  World moved = std::move(world_);
  EXPECT_EQ(moved.size(), size_by_mpi());
  moved.close();
}

TEST_F(WorldTest, SplitGivesTheRanksOfOneColorInTheOrderOfTheirKeys) {
  auto part = world_.group().split(world_.rank().value % 2, -world_.rank().value);
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->size(), (world_.size() + 1 - world_.rank().value % 2) / 2);
  const auto members = all_gather_numbers(*part, world_.rank().value);
  EXPECT_TRUE(std::is_sorted(members.rbegin(), members.rend()));
  part->close();
}

TEST_F(WorldTest, ShrinksAndGrowsAgainBySplit) {
  for (const int ranks :
       {world_.size(), std::max(1, world_.size() - 1), std::max(1, world_.size() / 2), world_.size()}) {
    const bool member = world_.rank().value < ranks;
    auto group = world_.group().split(member ? std::optional<int>(0) : std::nullopt, world_.rank().value);
    ASSERT_EQ(group.has_value(), member);
    if (!group) continue;
    EXPECT_EQ(group->size(), ranks);
    EXPECT_EQ(group->rank(), world_.rank());
    group->close();
    EXPECT_TRUE(group->closed());
  }
}

TEST_F(WorldTest, SplitRefusesANegativeColor) {
  EXPECT_EQ(code_of([&] { (void)world_.group().split(-1, 0); }), ErrorCode::invalid_argument);
}

TEST_F(WorldTest, AMessageInADuplicateDoesNotMeetTheOriginal) {
  RankSet copy = world_.group().dup();
  int relation = MPI_UNEQUAL;
  MPI_Comm_compare(communicator(world_.group()), communicator(copy), &relation);
  EXPECT_EQ(relation, MPI_CONGRUENT);
  copy.close();
}

TEST_F(WorldTest, AClosedGroupIsRefused) {
  RankSet copy = world_.group().dup();
  copy.close();
  EXPECT_EQ(code_of([&] { (void)copy.dup(); }), ErrorCode::invalid_argument);
}

TEST_F(WorldTest, RefusesADeadlineThatCannotBe) {
  RankSet copy = world_.group().dup();
  for (const double seconds : {0.0, -1.0, std::nan(""), 1e10})
    EXPECT_EQ(code_of([&] { copy.set_deadline(std::chrono::duration<double>(seconds)); }), ErrorCode::invalid_argument);
  copy.close();
}

/// No rank dies here, so the error of the body ends it where the MPI library can go on without ranks at all.
TEST_F(WorldTest, RunElasticSaysWhyItCannotOrThrowsWhatItsBodyThrows) {
  const std::string why_not = world_.why_not_elastic();
  const auto run = [&] { world_.run_elastic([](const auto& /*lost*/) { throw Error(ErrorCode::io, "disk full"); }); };
  if (why_not.empty()) {
    expect_error(run, ErrorCode::io, {"disk full"});
  } else {
    expect_error_on_every_rank(run, ErrorCode::unsupported, {why_not});
  }
}

TEST_F(WorldTest, AnMpiErrorBecomesATransportErrorThatNamesTheCall) {
  int value = 0;
  try {
    LOCKSTEP_MPI(MPI_Send(&value, 1, MPI_INT, world_.size(), 0, communicator(world_.group())), .operation = "hello");
    FAIL() << "sending to a rank outside the world succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::transport);
    EXPECT_NE(error.message().find("nvalid rank"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("MPI_Send(&value"), std::string::npos) << error.what();
    EXPECT_EQ(error.context().operation, "hello");
  }
}

}  // namespace
}  // namespace lockstep
