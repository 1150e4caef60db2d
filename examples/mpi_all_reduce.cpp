// SPDX-License-Identifier: Apache-2.0
// An all-reduce by lockstep inside a program that is an MPI program already: mpirun -np 3 mpi_all_reduce
#include <cstdio>
#include <lockstep/mpi.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  std::vector<double> values(1000);
  // README: begin
  MPI_Init(&argc, &argv);
  lockstep::ProcessGroup group = lockstep::adopt(MPI_COMM_WORLD);
  for (int i = group.rank().value; i < 1000; i += group.size()) values[i] = i / 8.0;
  lockstep::Buffer sums = std::span(values);
  group.communicator().all_reduce(sums, sums, lockstep::ReduceOp::sum).wait();
  group.close();
  // README: end
  double total = 0;
  for (int i = 0; i < 1000; ++i) total += i * values[i];
  std::printf("rank %d: total = %.17g\n", group.rank().value, total);
  MPI_Finalize();
}
