// SPDX-License-Identifier: Apache-2.0
// Ranks that MPI has not started: torchrun --no-python --nproc-per-node 3 from_environment
// prints: rank R: mean = 500.5
// Any launcher will do that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Each rank adds its share of the numbers
// from 1 to 1000, and an all-reduce brings the sum of all.
#include <cstdio>
#include <exception>
#include <lockstep/lockstep.hpp>
#include <span>
#include <utility>
#include <vector>

int main() {
  try {
    // guide ranks: begin
    lockstep::RankSet ranks = lockstep::from_environment();
    lockstep::ProcessGroup group(std::move(ranks));
    std::vector<double> sum_and_count(2);
    for (int i = 1 + group.rank().value; i <= 1000; i += group.size()) {
      sum_and_count[0] += i;
      sum_and_count[1] += 1;
    }
    lockstep::Buffer both = std::span(sum_and_count);
    group.communicator().all_reduce(both, both, lockstep::ReduceOp::sum).wait();
    // guide ranks: end
    std::printf("rank %d: mean = %g\n", group.rank().value, sum_and_count[0] / sum_and_count[1]);
    group.close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "from_environment: %s\n", error.what());
    return 1;
  }
}
