// SPDX-License-Identifier: Apache-2.0
// An all-reduce by lockstep inside a program that is an MPI program already: mpirun -np 3 mpi_all_reduce
// prints: rank R: total = 41604187.5, last = 99 99 99
#include <cstdio>
#include <lockstep/mpi.hpp>
#include <vector>

int main(int argc, char** argv) {
  std::vector<double> values(1000);
  // README: begin
  MPI_Init(&argc, &argv);
  lockstep::ProcessGroup group(lockstep::from_mpi(MPI_COMM_WORLD));
  for (int i = group.rank().value; i < 1000; i += group.size()) values[i] = i / 8.0;
  group.communicator().all_reduce(values, values, lockstep::ReduceOp::sum).wait();
  // README: end
  double total = 0;
  for (int i = 0; i < 1000; ++i) total += i * values[i];

  std::vector<double> mine(3), sums(3);
  // guide prepared: begin
  lockstep::Prepared sum = group.communicator().prepare_all_reduce(mine, sums, lockstep::ReduceOp::sum);
  for (int step = 0; step < 100; ++step) {
    for (double& number : mine) number = group.is_root() ? step : 0;  // this rank's numbers
    sum.start();
    sum.wait();
  }
  // guide prepared: end
  std::printf("rank %d: total = %.17g, last = %g %g %g\n", group.rank().value, total, sums[0], sums[1], sums[2]);
  // README: begin
  group.close();
  // README: end
  MPI_Finalize();
}
