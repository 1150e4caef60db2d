// SPDX-License-Identifier: Apache-2.0
// K-means by an MPI program that reduces through lockstep: mpirun -np 3 from_mpi
// prints: rank R: centers = 5.0039999999999996 44.997 85.001000000000005
// Each rank assigns its share of the points to the nearest center. Two all-reduces, which are under way together, bring
// the sums and the counts. Coordinates are whole numbers, so every number of ranks finds the same centers.
#include <array>
#include <cstdint>
#include <cstdio>
#include <lockstep/mpi.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  lockstep::ProcessGroup group(lockstep::from_mpi(MPI_COMM_WORLD));
  lockstep::Communicator& communicator = group.communicator();
  std::array<double, 3> centers = {0, 40, 90};
  std::vector<double> sums(3);
  std::vector<std::int64_t> counts(3);
  for (int round = 0; round < 10; ++round) {
    sums.assign(3, 0);
    counts.assign(3, 0);
    for (int i = group.rank().value; i < 3000; i += group.size()) {
      const double point = 40 * (i % 3) + i * 7 % 11;
      int nearest = 0;
      for (int k : {1, 2}) {
        const double here = centers[k] - point, best = centers[nearest] - point;
        if (here * here < best * best) nearest = k;
      }
      sums[nearest] += point;
      ++counts[nearest];
    }
    // guide mpi: begin
    // before: MPI_Iallreduce(MPI_IN_PLACE, sums.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]); …
    lockstep::Buffer all_sums = std::span(sums), all_counts = std::span(counts);
    lockstep::Work first = communicator.all_reduce(all_sums, all_sums, lockstep::ReduceOp::sum);
    lockstep::Work second = communicator.all_reduce(all_counts, all_counts, lockstep::ReduceOp::sum);
    first.wait();
    second.wait();
    // guide mpi: end
    for (int k : {0, 1, 2}) {
      if (counts[k] > 0) centers[k] = sums[k] / static_cast<double>(counts[k]);
    }
  }
  std::printf("rank %d: centers = %.17g %.17g %.17g\n", group.rank().value, centers[0], centers[1], centers[2]);
  group.close();
  MPI_Finalize();
}
