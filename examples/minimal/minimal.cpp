// SPDX-License-Identifier: Apache-2.0
// A small program to begin your own with, or a bug report: examples/minimal/run.sh builds it and runs it on two ranks.
#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <vector>

int main() {
  return lockstep::run([](lockstep::World& world) {
    std::vector<double> weight(1000, 1), gradient(1000);
    lockstep::ProcessGroup group(world);
    lockstep::DataParallel parallel(group, {{"weight", weight, gradient}});
    for (int step = 0; step < 10; ++step) {
      gradient.assign(gradient.size(), group.rank().value + 1);  // of this rank's samples, here of one
      parallel.ready(0);
      const double samples = parallel.finish(1).weight;  // gradients are sums over all ranks now
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.0625 * gradient[i] / samples;
    }
    std::printf("rank %d of %d: weight = %g\n", group.rank().value, group.size(), weight[0]);
  });
}
