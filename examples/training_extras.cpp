// SPDX-License-Identifier: Apache-2.0
// What a training loop needs beside gradients: gradient accumulation, gradient clipping, sums of metrics, an early
// stop, and saving on rank 0.
//   mpirun -np 3 training_extras
// prints: step 0: 577 wrong
// prints: step 160: 16 wrong
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <lockstep/lockstep.hpp>
#include <vector>

/// A perceptron over whole numbers, so that sums are exact and any number of ranks computes the same.
struct Model {
  std::vector<double> weight = {0, 0, 0}, gradient = {0, 0, 0};
  /// Adds the gradients over every `stride`-th sample from `first` on. Returns how many are classified wrongly.
  int backward(int first, int stride) {
    int wrong = 0;
    for (int i = first; i < 1000; i += stride) {
      const double x[] = {i % 17 - 8.0, i % 23 - 11.0, 1.0};
      const bool output = weight[0] * x[0] + weight[1] * x[1] + weight[2] > 0, label = 2 * x[0] - x[1] + 3 > 0;
      for (int k : {0, 1, 2}) gradient[k] += (output - label) * x[k];
      wrong += output != label;
    }
    return wrong;
  }
};

int main() {
  return lockstep::run([](lockstep::World& world) {
    Model m;
    lockstep::ProcessGroup group(world);
    lockstep::DataParallel parallel(group, {{"weight", m.weight, m.gradient}});
    bool is_perfect = false;
    for (int step = 0; !is_perfect && step < 1000; ++step) {
      m.gradient.assign(3, 0);
      // guide extras: begin
      double sums[1];                  // numbers of your own to sum over the ranks: here of samples classified wrongly
      for (int part : {0, 1, 2, 3}) {  // gradient accumulation over quarters of this rank's samples
        const auto no_sync = parallel.no_sync(part < 3);  // only the last quarter sends, namely the gradients of all
        sums[0] = m.backward(group.rank() + part * group.size(), 4 * group.size());
        parallel.ready(0);
        parallel.finish(1, sums);  // weight and sums accumulate; the last call returns those of all ranks
      }
      // gradient clipping: all ranks have the same sums, so each computes the same norm
      const double rate = 0.125 * std::min(1.0, 1000 / std::hypot(m.gradient[0], m.gradient[1], m.gradient[2]));
      for (int k : {0, 1, 2}) m.weight[k] -= rate * m.gradient[k];
      if (step % 160 == 0 && group.is_root()) std::printf("step %d: %g wrong\n", step, sums[0]);
      is_perfect = sums[0] == 0;  // early stop: the sum is the same on all ranks, which leave the loop together
      // guide extras: end
    }
    bool is_saved = true;  // by rank 0; the others hear how it went
    const auto& w = m.weight;
    if (group.is_root()) is_saved = !!(std::ofstream("weights.txt") << w[0] << ' ' << w[1] << ' ' << w[2] << std::endl);
    if (!agree(group, is_saved)) throw lockstep::Error(lockstep::ErrorCode::io, "no weights.txt").on_every_rank();
  });
}
