// SPDX-License-Identifier: Apache-2.0
// The test has its own world, without mpiexec, because the thread level is requested when MPI starts.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

namespace lockstep::ddp {
namespace {

TEST(OtherThreads, AreRefusedWhereMpiIsNotMadeForThem) {
  float value = 0;
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
  {
    DataParallel model(group, {{"weight", Buffer{&value, {1}}, {}}});
    std::thread([&] {
      const std::vector<std::string> words{"initialized with MPI_THREAD_SERIALIZED"};
      expect_error([&] { model.ready(0); }, ErrorCode::unsupported, words);
      expect_error([&] { (void)group.take_turn(); }, ErrorCode::unsupported, words);
    }).join();
    model.ready(0);
    EXPECT_EQ(model.finish(2).weight, 2) << "the refused call has left no trace";
  }
  group.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::ddp
