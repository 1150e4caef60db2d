// SPDX-License-Identifier: Apache-2.0
// Errors that the public headers of nn promise and that no other test of nn shows.
#include "support/errors.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/explain.hpp"
#include "nn/trainee.hpp"

namespace lockstep::nn {
namespace {

constexpr auto invalid = ErrorCode::invalid_argument;
constexpr auto unsupported = ErrorCode::unsupported;
const DataSpec digits = DataSpec::of_images(1, 4, 4, 3);

/// A classifier, or without `is_whole` a graph without loss.
Graph network_of(bool is_whole = true) {
  Graph network("small");
  network.input(digits.at("images"));
  network.add("fc", Linear{.out_features = 3});
  if (is_whole) classify(network, digits);
  return network;
}

TEST(NnErrors, OfPasses) {
  OptimizationPasses passes;
  expect_error([&] { passes.disable("fues"); }, invalid, {"'fues'", "did you mean 'fuse'"});
  EXPECT_TRUE(passes.fuse);
}

TEST(NnErrors, OfTheConstructorOfAModel) {
  const auto ops = ops::make_reference_ops();
  const auto make = [&](const Graph& graph, const ModelOptions& options) { const Model model(graph, *ops, options); };
  expect_error([&] { make(network_of(false), {}); }, invalid, {"'small' has no loss"});
  expect_error([&] { make(network_of(), {.optimizer = OptimizerOptions{.momentum = -1}}); }, invalid, {"momentum"});
  expect_error([&] { make(network_of(), {.optimizer = OptimizerOptions{.frozen = {"fcc"}}}); }, invalid, {"'fcc'"});
  expect_error([&] { make(network_of(), {.dtype = DType::float16}); }, unsupported, {"float16"});
  expect_error([&] { (void)explain_step(network_of(false), *ops, DType::float32, 1); }, invalid,
               {"'small' has no loss"});
  expect_error([&] { (void)explain_step(network_of(), *ops, DType::int32, 1); }, unsupported, {"int32"});
}

TEST(NnErrors, OfShards) {
  const auto ops = ops::make_reference_ops();
  Model model(network_of(), *ops, {.step = {.shards = 4}, .own_shards = {0, 2}});
  for (const Share own : {Share{3, 2}, Share{-1, 2}, Share{0, 0}})
    expect_error([&] { model.take_shards(own); }, invalid);
  model.take_shards({2, 2});
}

TEST(NnErrors, OfKernelChoices) {
  Trainee trainee(network_of());
  ops::KernelChoices choices;
  choices.set("a convolution", 8, {"onednn", "direct", "direct", "direct"});
  expect_error([&] { trainee.model.use(choices); }, unsupported, {"reference"});
  EXPECT_TRUE(trainee.model.choices().empty()) << "nothing has changed";
}

/// A reducer that fails where the test says so.
class FailingReducer final : public QuietReducer {
 public:
  explicit FailingReducer(bool in_finish) : in_finish_(in_finish) {}
  void reduce(int /*parameter*/, Queue /*queue*/) override { fail(!in_finish_); }
  void finish(const Buffer& /*numbers*/, Queue /*queue*/) override { fail(in_finish_); }

 private:
  static void fail(bool now) {
    if (now) throw Error(ErrorCode::transport, "as if a rank had died");
  }
  bool in_finish_;
};

TEST(NnErrors, OfTheReducer) {
  for (const bool in_finish : {false, true}) {
    Trainee trainee(network_of());
    const std::vector<double> images(32);
    const std::vector<std::int32_t> labels{0, 1};
    FailingReducer reducer(in_finish);
    expect_error([&] { trainee.differentiate(images.data(), labels.data(), 2, reducer); }, ErrorCode::transport,
                 {"as if a rank had died"});
  }
}

TEST(NnErrors, OfAPrediction) {
  Trainee trainee(network_of());
  const std::vector<double> images(32);
  const std::vector<std::int32_t> labels{0, 3};
  expect_error([&] { (void)trainee.evaluate(images.data(), labels.data(), 2); }, invalid,
               {"'loss'", "sample 1 is 3", "3 classes"});
}

TEST(NnErrors, OfModelsByName) {
  expect_error([] { (void)digits.at("image"); }, invalid, {"'image'"});
  const auto classify_with = [](const DataSpec& data, std::int64_t logits) {
    Graph network("small");
    network.input(digits.at("images"));
    network.add("fc", Linear{.out_features = logits});
    classify(network, data);
  };
  expect_error([&] { classify_with(digits, 4); }, invalid, {"4", "3"});
  expect_error([&] { classify_with({.tensors = {digits.at("images")}, .classes = 3}, 3); }, invalid, {"'labels'"});
  Models models;
  const auto expect_unknown = [&](const std::function<void()>& call) {
    expect_error(call, invalid, {"'lennet'", "did you mean 'lenet'", "resnet20"});
  };
  expect_unknown([&] { (void)models.defaults("lennet"); });
  expect_unknown([&] { (void)models.example("lennet"); });
  expect_unknown([&] { (void)models.usual_anchors("lennet"); });
  expect_unknown([&] { (void)models.stem("lennet", digits); });
  expect_unknown([&] { (void)models.workload("lennet"); });
  expect_unknown([&] { (void)models.make("lennet", digits); });
  expect_unknown([] { (void)make_model("lennet", digits); });
  expect_error([&] { models.add({.name = "lenet", .make = [](const DataSpec&) { return network_of(); }}); }, invalid,
               {"'lenet'"});
  const DataSpec tiny = DataSpec::of_images(1, 2, 2, 3);
  expect_error([&] { (void)models.make("lenet", tiny); }, invalid, {"lenet"});
  expect_error([&] { (void)make_model("lenet", tiny); }, invalid, {"lenet"});
}

TEST(NnErrors, OfTheOptimizer) {
  const Graph network = network_of();
  const auto make = [&](const OptimizerOptions& options) { (void)Optimizer(network.parameters(), options); };
  expect_error([&] { make({.weight_decay = -1}); }, invalid, {"-1"});
  expect_error([&] { make({.nesterov = true}); }, invalid, {"Nesterov"});
  expect_error([&] { make({.rule = ops::UpdateRule::adamw, .momentum = 0.9, .nesterov = true}); }, invalid,
               {"Nesterov"});
  expect_error([&] { make({.frozen = {"fcc"}}); }, invalid, {"'fcc'"});
}

}  // namespace
}  // namespace lockstep::nn
