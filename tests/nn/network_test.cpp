// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/network.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/tensors.hpp"

namespace lockstep::nn {
namespace {

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "no error";
}

TEST(Network, InfersShapes) {
  Network network("n", {64, 3, 9, 7}, 5);
  EXPECT_EQ(network.shape(Network::input), (ops::Shape{1, 3, 9, 7}));
  const int conv = network.add("conv", Convolution{.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(network.shape(conv), (ops::Shape{1, 8, 5, 4}));
  EXPECT_EQ(network.shape(network.add("bn", BatchNorm{})), (ops::Shape{1, 8, 5, 4}));
  EXPECT_EQ(network.shape(network.add("pool", MaxPool{})), (ops::Shape{1, 8, 2, 2}));
  EXPECT_EQ(network.shape(network.add("fc", Linear{.out_features = 5})), (ops::Shape{1, 5, 1, 1}));
  EXPECT_NO_THROW(network.check());
}

TEST(Network, NamesTensorsAsPyTorchDoes) {
  Network network("n", {1, 3, 4, 4}, 2);
  network.add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false});
  network.add("bn1", BatchNorm{});
  network.add("fc", Linear{.out_features = 2});
  const Tensors tensors = lay_out(network);
  ASSERT_EQ(tensors.parameters.tensors().size(), 5U);
  EXPECT_EQ(tensors.parameters.find("conv1.weight").shape, (std::vector<std::int64_t>{8, 3, 3, 3}));
  EXPECT_EQ(tensors.parameters.find("bn1.weight").shape, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(tensors.parameters.find("fc.weight").shape, (std::vector<std::int64_t>{2, 128}));
  EXPECT_EQ(tensors.parameters.find("fc.bias").shape, (std::vector<std::int64_t>{2}));
  ASSERT_EQ(tensors.state.tensors().size(), 2U);
  EXPECT_EQ(tensors.state.at(0).name, "bn1.running_mean");
  EXPECT_EQ(tensors.state.at(1).name, "bn1.running_var");
}

TEST(Network, RefusesLayersThatDoNotFit) {
  Network network("n", {1, 3, 4, 4}, 2);
  network.add("conv", Convolution{.out_channels = 2, .kernel = 3});
  EXPECT_EQ(refusal_of([&] { network.add("conv", Relu{}); }), "layer 'conv' exists already");
  EXPECT_EQ(refusal_of([&] { network.add("late", Relu{}, {1}); }),
            "layer 'late' reads layer 1, which does not come before it");
  EXPECT_EQ(refusal_of([&] {
              network.add("sum", Add{}, {0, Network::input});
            }),
            "layer 'sum' cannot add 2×2×2 and 3×4×4");
  EXPECT_EQ(refusal_of([&] { network.add("sum", Add{}); }), "layer 'sum' adds two results, not 1");
  EXPECT_EQ(refusal_of([&] { network.add("two", Relu{}, {0, 0}); }), "layer 'two' takes one input, not 2");
  EXPECT_EQ(refusal_of([&] { network.add("wide", MaxPool{{.kernel = 3, .stride = 3}}); }),
            "layer 'wide' has a window of 3×3, too large for its input of 2×2×2");
  EXPECT_EQ(refusal_of([&] { network.add("still", MaxPool{{.kernel = 2, .stride = 0}}); }),
            "layer 'still' needs kernel and stride ≥ 1 and padding ≥ 0");
  EXPECT_EQ(network.layers().size(), 1U);
}

TEST(Network, RefusesWhatIsIncomplete) {
  Network network("n", {1, 1, 4, 4}, 2);
  EXPECT_EQ(refusal_of([&] { network.check(); }), "model 'n' has no layers");
  network.add("unread", Relu{}, {Network::input});
  network.add("fc", Linear{.out_features = 3}, {Network::input});
  EXPECT_EQ(refusal_of([&] { network.check(); }), "layer 'fc' is the last and must give 2×1×1 logits, but gives 3×1×1");
  network.add("fc2", Linear{.out_features = 2});
  EXPECT_EQ(refusal_of([&] { network.check(); }), "layer 'unread' is not the last, and no layer reads its result");
  EXPECT_NE(refusal_of([] { Network("n", {1, 0, 4, 4}, 2); }), "no error");
  EXPECT_NE(refusal_of([] { Network("n", {1, 1, 4, 4}, 0); }), "no error");
}

TEST(FuseActivations, ReluBecomesPartOfItsOnlyProducer) {
  Network network("n", {1, 1, 4, 4}, 2);
  network.add("conv", Convolution{.out_channels = 2, .kernel = 3});
  network.add("relu1", Relu{});
  network.add("pool", MaxPool{});
  network.add("relu2", Relu{});
  network.add("fc", Linear{.out_features = 2});
  const Network fused = fuse_activations(network);
  ASSERT_EQ(fused.layers().size(), 4U);
  EXPECT_EQ(std::get<Convolution>(fused.layers()[0].kind).activation, ops::Activation::relu);
  EXPECT_EQ(fused.layers()[1].name, "pool");
  EXPECT_EQ(fused.layers()[1].inputs, std::vector<int>{0});
  EXPECT_TRUE(std::holds_alternative<Relu>(fused.layers()[2].kind)) << "a pool has no activation of its own";
  EXPECT_EQ(std::get<Linear>(fused.layers()[3].kind).activation, ops::Activation::none);
}

TEST(FuseActivations, LeavesAResultThatIsReadWithoutReluAlone) {
  Network network("n", {1, 2, 4, 4}, 2);
  const int conv = network.add("conv", Convolution{.out_channels = 2, .kernel = 1});
  const int relu = network.add("relu", Relu{});
  network.add("sum", Add{}, {conv, relu});
  network.add("fc", Linear{.out_features = 2});
  EXPECT_EQ(fuse_activations(network).layers().size(), 4U);
}

}  // namespace
}  // namespace lockstep::nn
