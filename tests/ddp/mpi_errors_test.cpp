// SPDX-License-Identifier: Apache-2.0
// An error that MPI returns becomes an Error of each call that promises it. The definitions below replace functions of
// the MPI library, which remain available as PMPI_…, and fail where a test asks for it. The test runs without mpiexec.
#include <gtest/gtest.h>
#include <mpi.h>

#include <optional>
#include <string>

#include "lockstep/mpi.hpp"
#include "support/errors.hpp"

namespace {

std::string failing;  // the name of the function that fails

int failure_or(const std::string& name, const auto& call) { return name == failing ? MPI_ERR_OTHER : call(); }

}  // namespace

extern "C" {

int MPI_Query_thread(int* provided) {
  return failure_or("MPI_Query_thread", [&] { return PMPI_Query_thread(provided); });
}
int MPI_Comm_rank(MPI_Comm of, int* rank) {
  return failure_or("MPI_Comm_rank", [&] { return PMPI_Comm_rank(of, rank); });
}
int MPI_Comm_test_inter(MPI_Comm of, int* flag) {
  return failure_or("MPI_Comm_test_inter", [&] { return PMPI_Comm_test_inter(of, flag); });
}
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* copy) {
  return failure_or("MPI_Comm_dup", [&] { return PMPI_Comm_dup(of, copy); });
}
int MPI_Comm_split(MPI_Comm of, int color, int key, MPI_Comm* part) {
  return failure_or("MPI_Comm_split", [&] { return PMPI_Comm_split(of, color, key, part); });
}
int MPI_Comm_free(MPI_Comm* what) {
  return failure_or("MPI_Comm_free", [&] { return PMPI_Comm_free(what); });
}
int MPI_Finalize() {
  return failure_or("MPI_Finalize", [] { return PMPI_Finalize(); });
}

}  // extern "C"

namespace lockstep {
namespace {

/// Expects an error that names the function of MPI that fails in the call.
template <typename Call>
void expect_failure(const std::string& function, const Call& call) {
  failing = function;
  expect_error(call, ErrorCode::transport, {function});
  failing.clear();
}

TEST(MpiErrors, AreTransportErrorsOfTheCallsThatMeetThem) {
  expect_failure("MPI_Comm_split", [] { const World failed; });
  std::optional<World> world(std::in_place);  // MPI is initialized now, and this test has to finalize it
  expect_failure("MPI_Query_thread", [] { (void)provided_thread_level(); });
  expect_failure("MPI_Comm_dup", [&] { (void)world->group().dup(); });
  expect_failure("MPI_Comm_rank", [&] { (void)world->group().dup(); });  // in the constructor of the group
  expect_failure("MPI_Comm_split", [&] { (void)world->group().split(0, 0); });
  expect_failure("MPI_Comm_test_inter", [] { (void)from_mpi(MPI_COMM_WORLD); });
  RankSet copy = world->group().dup();
  expect_failure("MPI_Comm_free", [&] { copy.close(); });

  expect_failure("MPI_Comm_dup", [&] { const ProcessGroup failed(*world); });
  expect_failure("MPI_Comm_test_inter", [] { (void)ProcessGroup(from_mpi(MPI_COMM_WORLD)); });
  ProcessGroup group(*world);
  expect_failure("MPI_Comm_free", [&] { group.close(); });
  expect_failure("MPI_Comm_free", [&] { world->close(); });
  PMPI_Finalize();
}

}  // namespace
}  // namespace lockstep
