// SPDX-License-Identifier: Apache-2.0
// Tests a program that calls plain MPI_Init and gives lockstep a communicator of its own.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "backends/make_agreed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/verdict.hpp"

namespace lockstep::backends {
namespace {

using namespace std::chrono_literals;

int world_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Sums 1 + rank over the group with the algorithm of this name.
double sum_over(const RankSet& group, const std::string& algorithm) {
  Progress progress;
  const auto communicator = make_agreed(group, progress, {.method = parse_method(algorithm)});
  double value = 1 + group.rank().value;
  const Buffer buffer{&value, {1}, DType::float64, MemoryKind::host};
  communicator->all_reduce(buffer, buffer, ReduceOp::sum).wait();
  communicator->close();
  return value;
}

TEST(AdoptedGroup, AllReduces) {
  for (const char* algorithm : {"auto", "ring", "mpi"}) {
    RankSet group = from_mpi(MPI_COMM_WORLD);
    EXPECT_EQ(sum_over(group, algorithm), world_size() * (world_size() + 1) / 2.0) << algorithm;
    group.close();
  }
}

TEST(AdoptedGroup, HasTheRanksOfTheCommunicatorInItsOrder) {
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank(), &reversed);
  RankSet group = from_mpi(reversed);
  MPI_Comm_free(&reversed);
  EXPECT_EQ(group.rank().value, world_size() - 1 - world_rank());
  EXPECT_EQ(group.size(), world_size());
  EXPECT_EQ(group.host_of(Rank{0}), group.host());
  EXPECT_EQ(group.shape().node_of_rank, std::vector<int>(static_cast<std::size_t>(world_size()), 0));
  EXPECT_EQ(sum_over(group, "auto"), world_size() * (world_size() + 1) / 2.0);
  group.close();
}

int copies = 0;
int note_copy(MPI_Comm /*from*/, int /*key*/, void* /*extra*/, void* /*in*/, void* /*out*/, int* copied) {
  ++copies;
  *copied = 0;
  return MPI_SUCCESS;
}

void never_called(MPI_Comm* /*communicator*/, int* /*code*/, ...) {
  ADD_FAILURE() << "the program's error handler ran";
}

MPI_Errhandler handler_of(MPI_Comm communicator) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(communicator, &handler);
  return handler;
}

TEST(AdoptedGroup, LeavesThreadLevelErrorHandlersAndAttributesAlone) {
  EXPECT_EQ(provided_thread_level(), ThreadLevel::single);
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(note_copy, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, nullptr);
  MPI_Errhandler own = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(never_called, &own);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
  World world;
  RankSet group = from_mpi(MPI_COMM_WORLD);
  EXPECT_EQ(sum_over(group, "auto"), world_size() * (world_size() + 1) / 2.0);
  EXPECT_THROW((void)group.split(-1, 0), Error);
  EXPECT_EQ(handler_of(MPI_COMM_WORLD), own);
  EXPECT_EQ(handler_of(MPI_COMM_SELF), MPI_ERRORS_ARE_FATAL);
  EXPECT_EQ(copies, 0);
  group.close();
  world.close();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&own);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  MPI_Comm_free_keyval(&key);
}

ErrorCode code_of_adopting(MPI_Comm communicator, std::string_view family, std::string& message) {
  try {
    from_mpi_handle(MPI_Comm_c2f(communicator), family).close();
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return ErrorCode::io;
}

TEST(AdoptedGroup, RefusesAnotherMpi) {
  std::string message;
  EXPECT_EQ(code_of_adopting(MPI_COMM_WORLD, "Fantasy MPI", message), ErrorCode::unsupported);
  EXPECT_NE(message.find("with the headers of Fantasy MPI, lockstep with those of " LOCKSTEP_MPI_FAMILY),
            std::string::npos)
      << message;
}

TEST(AdoptedGroup, RefusesNoCommunicator) {
  std::string message;
  EXPECT_EQ(code_of_adopting(MPI_COMM_NULL, LOCKSTEP_MPI_FAMILY, message), ErrorCode::invalid_argument);
  EXPECT_NE(message.find("MPI_COMM_NULL"), std::string::npos) << message;
}

TEST(AdoptedGroup, RefusesAnIntercommunicator) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  const bool is_first = world_rank() == 0;
  MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 7, &between);
  std::string message;
  EXPECT_EQ(code_of_adopting(between, LOCKSTEP_MPI_FAMILY, message), ErrorCode::invalid_argument);
  EXPECT_NE(message.find("intercommunicator"), std::string::npos) << message;
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

/// Returns the error on the ranks of a communicator if one of them arrives only after the others have given up.
std::string complaint_where_one_is_late(int late, int& peer) {
  // It is never freed, because a barrier on it has begun for which the library no longer waits.
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  if (world_rank() == late) std::this_thread::sleep_for(3s);
  try {
    from_mpi(communicator, 300ms).close();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    if (!error.context().peers.empty()) peer = error.context().peers.front();
    return error.message();
  }
  return "nothing";
}

/// Every rank gets the same error, including the one that arrives after the others have given up.
void expect_late_rank_named(int late) {
  int peer = -1;
  const std::string message = complaint_where_one_is_late(late, peer);
  EXPECT_EQ(message.find("rank " + std::to_string(late) + " "), 0U) << message;
  EXPECT_NE(message.find("has not joined in starting together within 0.3 s; rank"), std::string::npos) << message;
  EXPECT_EQ(peer, late);
}

TEST(AdoptedGroup, NamesWhoHasNotCome) {
  if (world_size() == 1) LOCKSTEP_SKIP(ranks) << "one rank waits for nobody";
  expect_late_rank_named(world_size() - 1);
}

TEST(AdoptedGroup, NamesRankZeroIfItIsTheOne) {
  if (world_size() == 1) LOCKSTEP_SKIP(ranks) << "one rank waits for nobody";
  expect_late_rank_named(0);
}

TEST(AdoptedGroup, WaitsForThoseThatComeInTime) {
  if (world_rank() == world_size() - 1) std::this_thread::sleep_for(500ms);
  RankSet group = from_mpi(MPI_COMM_WORLD, 60s);
  group.close();
}

}  // namespace
}  // namespace lockstep::backends

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return failed;
}
