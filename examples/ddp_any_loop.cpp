// SPDX-License-Identifier: Apache-2.0
// Somebody's own model and training loop, made data-parallel: mpirun -np 2 ddp_any_loop
// Logistic regression by hand; the library's three calls are marked.
#include <cmath>
#include <cstdio>
#include <vector>

#include "lockstep/backends/membership.hpp"
#include "lockstep/ddp/reducer.hpp"
#include "lockstep/platform/world.hpp"

int main() {
  lockstep::World world;
  lockstep::backends::Membership members(world.group(), {});
  const int rank = members.rank().value;

  // The model: weights and a bias, and their gradients, one behind the other.
  lockstep::Layout layout;
  const int weight = layout.add("weight", {2});
  const int bias = layout.add("bias", {1});
  const lockstep::Count size = layout.count();
  std::vector<double> parameters(size.value, rank == 0 ? 0.5 : -3.0);  // ranks may start apart
  std::vector<double> gradients(size.value);
  double* w = parameters.data() + layout.at(weight).offset.value;
  double* b = parameters.data() + layout.at(bias).offset.value;
  double* dw = gradients.data() + layout.at(weight).offset.value;
  double* db = gradients.data() + layout.at(bias).offset.value;

  const lockstep::Buffer all_parameters{parameters.data(), size, lockstep::DType::float64};
  const lockstep::Buffer all_gradients{gradients.data(), size, lockstep::DType::float64};
  members.gradients().broadcast(all_parameters, {0}).wait();  // 1. begin alike: rank 0's parameters
  lockstep::ddp::Reducer reducer(members.gradients(), members.progress(), layout, all_gradients, {});  // 2.

  constexpr int samples = 1000;  // rank r takes samples r, r + p, …
  for (int step = 0; step < 200; ++step) {
    dw[0] = dw[1] = db[0] = 0;
    for (int i = rank; i < samples; i += members.size()) {
      const double x = std::sin(1.7 * i), y = std::cos(2.9 * i);
      const double label = 2 * x - y + 0.3 > 0 ? 1 : 0;
      const double error = 1 / (1 + std::exp(-(w[0] * x + w[1] * y + b[0]))) - label;
      dw[0] += error * x;
      dw[1] += error * y;
      db[0] += error;
    }
    reducer.ready(bias);  // its sum over ranks may begin while the rest of backward is still at work
    reducer.ready(weight);
    reducer.finish();  // 3. gradients are sums over all ranks now
    for (std::size_t k = 0; k < parameters.size(); ++k) parameters[k] -= 5.0 / samples * gradients[k];
  }
  std::printf("rank %d: w = %.17g %.17g, b = %.17g\n", rank, w[0], w[1], b[0]);
  members.close();
  world.close();
}
