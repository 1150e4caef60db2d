// SPDX-License-Identifier: Apache-2.0
// A training loop of your own, made data-parallel: mpirun -np 3 ddp_any_loop
// The model is a perceptron, written by hand. Samples and errors are whole numbers, so that their sums are exact: any
// number of ranks finds the same weights, to the last bit.
// prints: rank R: w = 8.7150000000000105 -4.7750000000000057, b = 10.379999999999997
#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <vector>

struct Model {
  std::vector<double> weight = {0, 0}, bias = {0};
  std::vector<double> d_weight = {0, 0}, d_bias = {0};  // gradients: sums over samples

  /// Computes the gradients over every `stride`-th sample from `first` on. Returns how many these are.
  int backward(int first, int stride) {
    d_weight = {0, 0};
    d_bias = {0};
    int samples = 0;
    for (int i = first; i < 1000; i += stride, ++samples) {
      const int x = i % 17 - 8, y = i % 23 - 11;
      const int label = 2 * x - y + 3 > 0 ? 1 : 0;
      const int error = (weight[0] * x + weight[1] * y + bias[0] > 0 ? 1 : 0) - label;
      d_weight[0] += error * x;
      d_weight[1] += error * y;
      d_bias[0] += error;
    }
    return samples;
  }
  void update(double rate) {
    for (int k : {0, 1}) weight[k] -= rate * d_weight[k];
    bias[0] -= rate * d_bias[0];
  }
};

// README: begin
int main() {
  return lockstep::run([](lockstep::World& world) {
    Model m;
    lockstep::ProcessGroup group(world);
    lockstep::DataParallel parallel(group, {{"weight", m.weight, m.d_weight}, {"bias", m.bias, m.d_bias}});
    for (int step = 0; step < 100; ++step) {
      const int samples = m.backward(group.rank().value, group.size());  // gradients of this rank's samples
      for (int parameter : {1, 0}) parallel.ready(parameter);            // starts a bucket as soon as it is complete
      const double total = parallel.finish(samples).weight;              // gradients are sums over all ranks now
      m.update(5 / total);
    }
    // README: end
    std::printf("rank %d: w = %.17g %.17g, b = %.17g\n", world.rank().value, m.weight[0], m.weight[1], m.bias[0]);
    // README: begin
  });
}
// README: end
