// SPDX-License-Identifier: Apache-2.0
// A training loop of your own that goes on where it was stopped: mpirun -np 3 checkpoint
// The program trains 40 steps, forgets everything, and goes on from the checkpoint, as after a crash. All numbers are
// whole, so that their sums are exact, and any number of ranks finds the same weights as without a stop.
// prints: rank R: went on from step 0, now at 40: w = -4335 -4753
// prints: rank R: went on from step 40, now at 100: w = -10791 -11933
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <vector>

namespace {

void train(lockstep::ProcessGroup& group, std::int64_t last_step) {
  std::vector<double> weight = {0, 0}, gradient = {0, 0}, velocity = {0, 0};
  std::int64_t step = 0;
  lockstep::DataParallel parallel(group, {{"weight", weight, gradient}});
  // guide checkpoint: begin
  lockstep::Checkpoint checkpoint(group, "runs/mine");
  checkpoint.add(parallel).add("velocity", velocity).add("step", step);
  checkpoint.restore();  // from the newest good one, if there is one
  // guide checkpoint: end
  const std::int64_t first = step;
  // guide checkpoint: begin
  while (step < last_step) {  // a step of training, and then:
    // guide checkpoint: end
    gradient = {0, 0};
    for (int i = group.rank().value; i < 60; i += group.size()) {
      gradient[0] += i % 7 - step % 5;
      gradient[1] += i % 5 - step % 3;
    }
    parallel.ready(0);
    parallel.finish(1);
    for (int k : {0, 1}) weight[k] -= velocity[k] = std::floor(velocity[k] / 2) + gradient[k];
    // guide checkpoint: begin
    if (++step % 20 == 0) checkpoint.save(step);
  }
  // guide checkpoint: end
  std::printf("rank %d: went on from step %d, now at %d: w = %.17g %.17g\n", group.rank().value,
              static_cast<int>(first), static_cast<int>(step), weight[0], weight[1]);
}

}  // namespace

int main() {
  return lockstep::run([](lockstep::World& world) {
    lockstep::ProcessGroup group(world);
    train(group, 40);
    train(group, 100);
  });
}
