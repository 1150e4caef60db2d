// SPDX-License-Identifier: Apache-2.0
// A rank that does not make its World is named by the others, and hears of it when it comes. It is a program of its
// own, because MPI_COMM_WORLD is of no use afterwards.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <thread>

#include "lockstep/mpi/world.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

TEST(LateWorld, NamesTheRankThatIsMissing) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == size - 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  try {
    const World world({.deadline = std::chrono::milliseconds(300)});
    ADD_FAILURE() << "it was made without rank " << size - 1;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    EXPECT_EQ(error.context().peers, std::vector<int>{size - 1}) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
