// SPDX-License-Identifier: Apache-2.0
// A libtorch module trained on MNIST by all ranks: mpirun -np 2 torch_mnist FOLDER [EPOCHS]
// FOLDER has MNIST's four files, unpacked.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <lockstep/lockstep.hpp>
#include <lockstep/torch.hpp>
#include <vector>

using namespace torch::data;

auto load(const char* folder, datasets::MNIST::Mode mode) {
  return datasets::MNIST(folder, mode).map(transforms::Normalize<>(0.1307, 0.3081)).map(transforms::Stack<>());
}

/// Loads this rank's part of a data set in batches. The sampler shuffles by the epoch, so each epoch makes a loader.
auto make_loader(const auto& images, const lockstep::ProcessGroup& group, int epoch) {
  samplers::DistributedRandomSampler sampler(*images.size(), group.size(), group.rank().value, false);
  sampler.set_epoch(epoch);
  return make_data_loader(images, sampler, 32);
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: torch_mnist FOLDER [EPOCHS]\n"), 2;
  return lockstep::run([&](lockstep::World& world) {
    lockstep::ProcessGroup group(world);
    torch::set_num_threads(1);  // each rank has a processor
    const auto images = load(argv[1], datasets::MNIST::Mode::kTrain);
    const auto tests = make_loader(load(argv[1], datasets::MNIST::Mode::kTest), group, 0);
    // README: begin
    using namespace torch::nn;
    Sequential net(Conv2d(1, 16, 5), ReLU(), MaxPool2d(2), Conv2d(16, 32, 5), ReLU(), MaxPool2d(2), Flatten(),
                   Linear(512, 128), ReLU(), Linear(128, 10));
    lockstep::torch::DistributedDataParallel model(group, net);  // all ranks have rank 0's weights now
    const auto sum = functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
    for (int epoch = 1; epoch <= (argc > 2 ? std::atoi(argv[2]) : 2); ++epoch) {
      const auto loader = make_loader(images, group, epoch);  // The loader copies its sampler.
      for (auto& batch : *loader) {
        optimizer.zero_grad();
        functional::cross_entropy(model.forward(batch.data), batch.target.flatten(), sum).backward();
        model.finish(static_cast<double>(batch.target.numel()));  // gradients are means over all ranks' samples now
        optimizer.step();
      }
      torch::NoGradGuard no_grad;
      std::vector<double> counts = {0, 0};  // of right answers, and of images
      for (auto& batch : *tests) {
        counts[0] += (net->forward(batch.data).argmax(1) == batch.target.flatten()).sum().item<double>();
        counts[1] += static_cast<double>(batch.target.numel());
      }
      group.sum(counts);
      if (group.is_root())
        std::printf("epoch %d: %.2f %% of %.0f are right\n", epoch, 100 * counts[0] / counts[1], counts[1]);
    }
    // README: end
  });
}
