// SPDX-License-Identifier: Apache-2.0
// A training loop on ranks that MPI has not started: torchrun --no-python --nproc-per-node 3 from_environment
// prints: rank R: y = 3.000x - 1.000
// Any launcher will do that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The model is a line, which is fitted to
// 1000 points by gradient descent.
#include <cstdio>
#include <exception>
#include <lockstep/lockstep.hpp>
#include <utility>
#include <vector>

int main() {
  try {
    // guide ranks: begin
    lockstep::RankSet ranks = lockstep::from_environment();
    lockstep::ProcessGroup group(std::move(ranks));
    std::vector<double> line = {0, 0}, gradient(2);
    lockstep::DataParallel parallel(group, {{"line", line, gradient}});
    for (int step = 0; step < 50; ++step) {
      int samples = 0;
      gradient = {0, 0};
      for (int i = group.rank().value; i < 1000; i += group.size(), ++samples) {  // this rank's points
        const double x = i / 500.0 - 1, error = line[0] * x + line[1] - (3 * x - 1);
        gradient[0] += error * x;
        gradient[1] += error;
      }
      parallel.ready(0);
      const double total = parallel.finish(samples).weight;  // the gradient is the sum over all ranks now
      for (int k : {0, 1}) line[k] -= gradient[k] / total;
    }
    // guide ranks: end
    std::printf("rank %d: y = %.3fx - %.3f\n", group.rank().value, line[0], -line[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "from_environment: %s\n", error.what());
    return 1;
  }
}
