// SPDX-License-Identifier: Apache-2.0
// Runs train with an external model.
#include <lockstep/train.hpp>

int main(int argc, char** argv) {
  lockstep::Registry registry;
  registry.models.add({.name = "strange", .make = [](const lockstep::nn::DataSpec& data) {
                         lockstep::nn::Graph graph("strange");
                         graph.input(data.at("images"));
                         graph.add("fc", lockstep::nn::Linear{.out_features = data.classes});
                         lockstep::nn::classify(graph, data);
                         return graph;
                       }});
  return lockstep::train_main(argc, argv, registry);
}
