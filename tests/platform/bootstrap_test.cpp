// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/bootstrap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "lockstep/mpi/world.hpp"

namespace lockstep {
namespace {

class BootstrapTest : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  [[nodiscard]] const RankSet& group() const { return world_.group(); }
  [[nodiscard]] int rank() const { return world_.rank().value; }
  World world_;
};

TEST_F(BootstrapTest, GathersStringsOfUnequalLength) {
  std::vector<std::string> expected;
  for (int rank = 0; rank < world_.size(); ++rank) expected.emplace_back(static_cast<std::size_t>(rank) * 3, 'x');
  const std::string& mine = expected[static_cast<std::size_t>(rank())];
  EXPECT_EQ(group().exchange(mine), expected);
  const Rank last{world_.size() - 1};
  EXPECT_EQ(gather_strings(group(), mine, last), world_.rank() == last ? expected : std::vector<std::string>{});
}

TEST_F(BootstrapTest, RefusesMoreThanMpiCounts) {
  const std::size_t bytes = (std::size_t{1} << 31) / static_cast<std::size_t>(group().size()) + 1;
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  try {
    (void)group().exchange({static_cast<const char*>(memory), bytes});  // it is not read
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  }
  EXPECT_EQ(munmap(memory, bytes), 0);
  EXPECT_EQ(group().exchange("all go on").size(), static_cast<std::size_t>(group().size()));
}

TEST_F(BootstrapTest, BroadcastsTheRootsString) {
  const Rank last{world_.size() - 1};
  EXPECT_EQ(broadcast_string(group(), "from " + std::to_string(rank()), last), "from " + std::to_string(last.value));
  EXPECT_EQ(broadcast_string(group(), "", Rank{0}), "");
}

TEST_F(BootstrapTest, GathersNumbers) {
  const auto all = all_gather_numbers(group(), std::int64_t{1} << (40 + rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world_.size()));
  EXPECT_EQ(all.back(), std::int64_t{1} << (40 + world_.size() - 1));
}

TEST_F(BootstrapTest, AgreesWhereNobodyHasAnError) { EXPECT_NO_THROW(agree(group(), std::nullopt)); }

TEST_F(BootstrapTest, EveryRankThrowsTheErrorOfTheOneAtFault) {
  const int faulty = world_.size() / 2;
  std::optional<Error> mine;
  if (rank() == faulty) {
    mine = Error(ErrorCode::corrupt, "bad magic",
                 {.operation = "load", .label = "train", .step = 7, .bytes = Bytes{16}.value});
  }
  try {
    agree(group(), mine);
    FAIL() << "rank " << rank() << " did not hear of the error";
  } catch (const Error& error) {
    EXPECT_TRUE(error.is_on_every_rank());
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.message(), "bad magic");
    EXPECT_EQ(error.context().operation, "load");
    EXPECT_EQ(error.context().label, "train");
    EXPECT_EQ(error.context().step, 7);
    EXPECT_EQ(error.context().bytes, 16);
    EXPECT_EQ(error.context().rank, faulty);
    EXPECT_EQ(error.context().peers, std::vector<int>{faulty});
  }
}

TEST_F(BootstrapTest, TheLowestFaultyRankSpeaksForAll) {
  const bool faulty = rank() > 0 || world_.size() == 1;
  std::vector<int> at_fault;
  for (int i = world_.size() == 1 ? 0 : 1; i < world_.size(); ++i) at_fault.push_back(i);
  try {
    agree(group(), faulty ? std::optional(Error(ErrorCode::io, "from " + std::to_string(rank()))) : std::nullopt);
    FAIL() << "rank " << rank() << " did not hear of the error";
  } catch (const Error& error) {
    EXPECT_TRUE(error.is_on_every_rank());
    EXPECT_EQ(error.message(), "from " + std::to_string(at_fault.front()));
    EXPECT_EQ(error.context().peers, at_fault);
    EXPECT_FALSE(error.context().step.has_value());
  }
}

}  // namespace
}  // namespace lockstep
