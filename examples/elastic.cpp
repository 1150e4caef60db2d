// SPDX-License-Identifier: Apache-2.0
// A training loop of your own that goes on when ranks die: mpirun --with-ft ulfm -np 3 elastic
// Where MPI has ULFM, the last rank ends after half of the steps, as if it had been killed. All numbers are whole, so
// that their sums are exact, and the ranks that are left find the same weights as all would.
// prints: w = -5400 -6060
#include <csignal>
#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <memory>
#include <utility>
#include <vector>

int main() {
  return lockstep::run([](lockstep::World& world) {
    const bool is_elastic = world.why_not_elastic().empty();
    const bool dies = is_elastic && world.size() > 1 && world.rank().value == world.size() - 1;
    std::vector<double> weight = {0, 0}, gradient = {0, 0};
    int step = 0;
    auto group = std::make_unique<lockstep::ProcessGroup>(world);
    lockstep::DataParallel parallel(*group, {{"weight", weight, gradient}});

    // guide elastic: begin
    const auto train = [&](const std::vector<lockstep::LostRank>& lost) {
      if (!lost.empty()) {
        auto others = std::make_unique<lockstep::ProcessGroup>(world);  // of the ranks that are left
        parallel.rebind(*others);
        group = std::move(others);
        // Some may have completed the last step, and others not.
        const int furthest = group->max(step);
        const int source = group->min(step == furthest ? group->rank().value : group->size());
        group->broadcast(weight, {source});
        step = furthest;
      }
      for (; step < 100; ++step) {  // a step of training
        // guide elastic: end
        if (dies && step == 50) std::raise(SIGKILL);
        gradient = {0, 0};
        for (int i = group->rank().value; i < 60; i += group->size()) {
          gradient[0] += i % 7 - step % 5;
          gradient[1] += i % 5 - step % 3;
        }
        parallel.ready(0);
        parallel.finish(1);
        for (int k : {0, 1}) weight[k] -= gradient[k];
        // guide elastic: begin
      }
    };
    if (is_elastic) {
      world.run_elastic(train);
    } else {
      train({});  // a death ends the job
    }
    // guide elastic: end
    if (group->is_root()) std::printf("w = %.17g %.17g\n", weight[0], weight[1]);
  });
}
