// SPDX-License-Identifier: Apache-2.0
// A rank that does not make a call that the others make is named, whatever they do with their group.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <functional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep {
namespace {

/// Expects the error on all ranks that make this step; the last rank does not make it.
void expect_last_named(const std::function<void(ProcessGroup&)>& step, const std::string& what) {
  World world;
  ProcessGroup group(world, {.deadline = std::chrono::milliseconds(300)});
  const int last = world.size() - 1;
  if (world.rank().value != last) {
    try {
      step(group);
      ADD_FAILURE() << "it was done without rank " << last;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_EQ(error.context().peers, std::vector<int>{last});
      const std::string expected =
          "rank " + std::to_string(last) + " on " + world.host() + " has not joined in " + what;
      EXPECT_EQ(error.message().find(expected), 0U) << error.message();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);  // a rank that waits here does not answer the others
  world.close();
}

TEST(MissingRankOfAGroup, IsNamedWhereACommunicatorIsMade) {
  expect_last_named([](ProcessGroup& group) { (void)group.new_communicator(); }, "making a communicator within 0.3 s");
}

TEST(MissingRankOfAGroup, IsNamedWhereTheCommunicatorOfStatisticsIsMade) {
  expect_last_named([](ProcessGroup& group) { (void)group.control(); }, "making a communicator within 0.3 s");
}

TEST(MissingRankOfAGroup, IsNamedWhereTheGroupIsSplit) {
  expect_last_named([](ProcessGroup& group) { (void)group.split(0, 0); }, "splitting a group within 0.3 s");
}

}  // namespace
}  // namespace lockstep
