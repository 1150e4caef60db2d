// SPDX-License-Identifier: Apache-2.0
// A libtorch module trained by ranks that MPI has not started: torchrun --no-python --nproc-per-node 2 torch_line
// prints: y = 3.00x - 1.00
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <lockstep/lockstep.hpp>
#include <lockstep/torch.hpp>

int main() {
  try {
    lockstep::ProcessGroup group(lockstep::from_environment());
    torch::manual_seed(group.rank().value);  // each rank draws samples of its own
    torch::nn::Linear line(1, 1);
    lockstep::torch::DistributedDataParallel model(group, line);  // all ranks have rank 0's weights now
    torch::optim::SGD optimizer(line->parameters(), 0.2);
    for (int step = 0; step < 200; ++step) {
      const torch::Tensor x = torch::randn({32, 1});
      optimizer.zero_grad();
      torch::mse_loss(model.forward(x), 3 * x - 1).backward();
      model.finish();  // gradients are means over all ranks now
      optimizer.step();
    }
    if (group.is_root()) std::printf("y = %.2fx - %.2f\n", line->weight.item<double>(), -line->bias.item<double>());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_line: %s\n", error.what());
    return 1;
  }
}
