// SPDX-License-Identifier: Apache-2.0
// main() of tests that run under mpiexec. Every rank runs every test; rank 0 reports everything, the others only
// failures.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>

#include "support/verdict.hpp"

namespace {

class FailureWithRank : public testing::EmptyTestEventListener {
 public:
  explicit FailureWithRank(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) {
      std::fprintf(stderr, "[rank %d] %s:%d\n%s\n", rank_, result.file_name(), result.line_number(), result.summary());
    }
  }
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  testing::InitGoogleTest(&argc, argv);
  lockstep::testing_support::select_files(argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailureWithRank(rank));
  }
  const int verdict = lockstep::testing_support::verdict(RUN_ALL_TESTS());
  // The test does not wait for other ranks after a failure, because they may be waiting for this one.
  if (verdict == 1) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return verdict;
}
