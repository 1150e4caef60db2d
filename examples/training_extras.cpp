// SPDX-License-Identifier: Apache-2.0
// What a training loop needs beside gradients: gradient accumulation, sums of metrics, an early stop, and saving on
// rank 0.
//   mpirun -np 3 training_extras
// prints: TODO
#include <cstdio>
#include <fstream>
#include <lockstep/lockstep.hpp>
#include <vector>

/// A perceptron over samples that are whole numbers, so that any number of ranks computes the same.
struct Model {
  std::vector<double> weight = {0, 0, 0}, gradient = {0, 0, 0};
  /// Adds the gradients over every `stride`-th sample from `first` on. Returns how many of them are classified wrongly.
  int backward(int first, int stride) {
    int wrong = 0;
    for (int i = first; i < 1000; i += stride) {
      const double x[] = {i % 17 - 8.0, i % 23 - 11.0, 1.0};
      const double output = weight[0] * x[0] + weight[1] * x[1] + weight[2];
      const int error = (output > 0 ? 1 : 0) - (2 * x[0] - x[1] + 3 > 0 ? 1 : 0);
      for (int k : {0, 1, 2}) gradient[k] += error * x[k];
      wrong += error != 0 ? 1 : 0;
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
    for (int step = 0; step < 1000 && !is_perfect; ++step) {
      m.gradient.assign(3, 0);
      int wrong = 0;
      const auto backward = [&](int part) {  // of a quarter of this rank's samples
        wrong += m.backward(group.rank().value + part * group.size(), 4 * group.size());
        parallel.ready(0);
        parallel.finish(1);
      };
      {
        const auto no_sync = parallel.no_sync();  // accumulates three quarters, without communication
        for (int part : {0, 1, 2}) backward(part);
      }
      backward(3);  // sends the sums of all four
      for (int k : {0, 1, 2}) m.weight[k] -= 0.125 * m.gradient[k];

      const int all_wrong = group.sum(wrong), most = group.max(wrong);  // metrics over all ranks
      if (step % 20 == 0 && group.is_root()) std::printf("step %d: %d wrong\n", step, all_wrong);
      if (most > all_wrong) throw std::logic_error("a rank has more than all");
      is_perfect = agree(group, wrong == 0);  // early stop: all ranks leave the loop at the same step
    }
    bool is_saved = true;
    if (group.is_root()) is_saved = static_cast<bool>(std::ofstream("weights.txt") << m.weight[0] << std::endl);
    if (!group.broadcast(is_saved)) throw std::runtime_error("cannot write weights.txt");
  });
}
