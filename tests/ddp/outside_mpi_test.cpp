// SPDX-License-Identifier: Apache-2.0
// Tests a program that uses a group before MPI_Init or after MPI_Finalize. It runs without mpiexec, and in one test,
// because a process initializes MPI once.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi.hpp"

namespace lockstep::ddp {
namespace {

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(AdoptedGroup, IsRefusedBeforeMpiBeginsAndAfterItEnds) {
  const auto adopt_world = [] { ProcessGroup(from_mpi(MPI_COMM_WORLD)).close(); };
  EXPECT_NE(refusal_of(adopt_world).find("call MPI_Init first"), std::string::npos);
  MPI_Init(nullptr, nullptr);
  ProcessGroup closed(from_mpi(MPI_COMM_WORLD));
  closed.close();
  ProcessGroup late(from_mpi(MPI_COMM_WORLD));
  EXPECT_EQ(late.sum(2), 2);
  MPI_Finalize();
  EXPECT_NE(refusal_of(adopt_world).find("MPI is finalized already"), std::string::npos);
  EXPECT_NE(refusal_of([&] { late.close(); }).find("close the group before MPI_Finalize"), std::string::npos);
  closed.close();
}

}  // namespace
}  // namespace lockstep::ddp
