// SPDX-License-Identifier: Apache-2.0
// A world of its own, without mpiexec, because the level is asked for when MPI starts.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "support/verdict.hpp"

namespace lockstep::ddp {
namespace {

TEST(ProgressThreadOfAGroup, IsRefusedWhereMpiIsNotMadeForIt) {
  World world({.thread_level = ThreadLevel::single});
  if (provided_thread_level() >= ThreadLevel::serialized)
    LOCKSTEP_SKIP(threads) << "this MPI gives more than it is asked for";
  try {
    const ProcessGroup group(world, {.progress_thread = true});
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("MPI_THREAD_SERIALIZED"), std::string::npos) << error.message();
  }
  ProcessGroup group(world);
  group.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::ddp
