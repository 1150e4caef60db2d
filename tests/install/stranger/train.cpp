// SPDX-License-Identifier: Apache-2.0
// train with a model of somebody else's.
#include <lockstep/train.hpp>

int main(int argc, char** argv) {
  lockstep::Registry registry;
  registry.models.add({.name = "strange", .make = [](lockstep::ops::Shape image, std::int64_t classes) {
                         lockstep::nn::Network network("strange", image, classes);
                         network.add("fc", lockstep::nn::Linear{.out_features = classes});
                         return network;
                       }});
  return lockstep::train_main(argc, argv, registry);
}
