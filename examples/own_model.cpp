// SPDX-License-Identifier: Apache-2.0
// The program `train` with a model of one's own:
//   mpirun -np 2 own_model --model tiny --epochs 1        trains it, on digits that the program draws itself
//   own_model --help                                      lists it among the models, and all options
#include <cstdint>
#include <lockstep/train.hpp>

namespace {

namespace nn = lockstep::nn;

/// A convolution and a linear layer: enough for digits. The model is described only. Which weights there are follows
/// from the layers; `train` makes them, the same on every rank, and keeps them so.
/// @param image    one image: channels, height and width, as the data set has them
/// @param classes  how many kinds of images there are; the last layer gives a number for each
nn::Network make_tiny(lockstep::ops::Shape image, std::int64_t classes) {
  nn::Network network("tiny", image, classes);
  network.add("conv", nn::Convolution{.out_channels = 8, .kernel = 3, .padding = 1});  // its weights: "conv.weight"
  network.add("relu", nn::Relu{});
  network.add("pool", nn::MaxPool{});  // halves height and width
  network.add("fc", nn::Linear{.out_features = classes});
  return network;
}

}  // namespace

int main(int argc, char** argv) {
  // README: begin
  lockstep::Registry registry;  // knows what comes with lockstep
  registry.models.add({.name = "tiny",
                       .make = make_tiny,
                       .defaults = {.learning_rate = 0.1, .momentum = 0.9, .epochs = 2, .batch = 64}});
  return lockstep::train_main(argc, argv, registry);  // reads the options, trains on all ranks, and says how it went
  // README: end
}
