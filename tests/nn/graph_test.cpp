// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/graph.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"

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

/// Returns a graph with images of this extent as value 0.
Graph graph_of(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Graph graph("n");
  graph.input({"images", {channels, height, width}});
  return graph;
}

int add_labels(Graph& graph) { return graph.input({"labels", {1, 1, 1}, Content::integer}); }

void add_loss(Graph& graph) {
  const int logits = graph.last();
  graph.loss("loss", CrossEntropy{}, {logits, add_labels(graph)});
}

TEST(Graph, SmoothsTheLabelsOfEveryCrossEntropy) {
  Graph graph = graph_of(3, 1, 1);
  add_loss(graph);
  const Graph smoothed = smooth_labels(graph, 0.25);
  EXPECT_EQ(std::get<CrossEntropy>(smoothed.nodes().back().op).label_smoothing, 0.25);
  EXPECT_EQ(std::get<CrossEntropy>(graph.nodes().back().op).label_smoothing, 0);
  EXPECT_NE(refusal_of([] { (void)smooth_labels(graph_of(1, 1, 1), 0.1); }).find("'n' has no cross-entropy"),
            std::string::npos);
}

TEST(Graph, HasOutputsThatPassesKeep) {
  Graph graph = graph_of(3, 4, 4);
  const int conv = graph.add("conv", Convolution{.out_channels = 8, .kernel = 1});
  graph.add("relu", Relu{});
  graph.add("pool", MaxPool{});
  graph.add("fc", Linear{.out_features = 5});
  EXPECT_EQ(fuse_activations(graph).nodes().size(), 3U);
  graph.output("features", conv);
  EXPECT_EQ(fuse_activations(graph).nodes().size(), 4U) << "the ReLU would change the output";
  for (const auto& [name, value] : {std::pair("features", graph.last()), {"images", 0}, {"none", 99}, {"none", -1}})
    EXPECT_NE(refusal_of([&, n = name, v = value] { graph.output(n, v); }).find("cannot have the output"),
              std::string::npos);
  EXPECT_NE(refusal_of([&] {
              graph.output("rows", conv, {.channels_last = true});
            }).find("cannot export the output 'rows' of height 4"),
            std::string::npos);
  ASSERT_EQ(graph.outputs().size(), 1U);
  EXPECT_EQ(graph.outputs()[0].value, conv);
  EXPECT_EQ(graph.outputs()[0].exported_name(), "features");
}

TEST(Graph, InfersShapes) {
  Graph graph = graph_of(3, 9, 7);
  EXPECT_EQ(graph.shape(0), (ops::Shape{1, 3, 9, 7}));
  const int conv = graph.add("conv", Convolution{.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(graph.shape(conv), (ops::Shape{1, 8, 5, 4}));
  EXPECT_EQ(graph.shape(graph.add("bn", BatchNorm{})), (ops::Shape{1, 8, 5, 4}));
  EXPECT_EQ(graph.shape(graph.add("pool", MaxPool{})), (ops::Shape{1, 8, 2, 2}));
  EXPECT_EQ(graph.shape(graph.add("fc", Linear{.out_features = 5})), (ops::Shape{1, 5, 1, 1}));
  add_loss(graph);
  EXPECT_NO_THROW(graph.check());
}

TEST(Graph, NamesTensorsAsPyTorchDoes) {
  Graph graph = graph_of(3, 4, 4);
  graph.add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false});
  graph.add("bn1", BatchNorm{});
  graph.add("fc", Linear{.out_features = 2});
  ASSERT_EQ(graph.parameters().tensors().size(), 5U);
  EXPECT_EQ(graph.parameters().find("conv1.weight").shape, (std::vector<std::int64_t>{8, 3, 3, 3}));
  EXPECT_EQ(graph.parameters().find("bn1.weight").shape, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(graph.parameters().find("fc.weight").shape, (std::vector<std::int64_t>{2, 128}));
  EXPECT_EQ(graph.parameters().find("fc.bias").shape, (std::vector<std::int64_t>{2}));
  ASSERT_EQ(graph.state().tensors().size(), 2U);
  EXPECT_EQ(graph.state().at(0).name, "bn1.running_mean");
  EXPECT_EQ(graph.state().at(1).name, "bn1.running_var");
}

TEST(Graph, RefusesOperatorsThatDoNotFit) {
  Graph graph = graph_of(3, 4, 4);
  graph.add("conv", Convolution{.out_channels = 2, .kernel = 3});
  EXPECT_EQ(refusal_of([&] { graph.add("conv", Relu{}); }), "layer 'conv' exists already");
  EXPECT_EQ(refusal_of([&] { graph.add("late", Relu{}, {2}); }), "layer 'late' reads value 2, which does not exist");
  EXPECT_EQ(refusal_of([&] {
              graph.add("sum", Add{}, {1, 0});
            }),
            "layer 'sum' is invalid: cannot add activations of 1x2x2x2 and 1x3x4x4");
  EXPECT_EQ(refusal_of([&] { graph.add("sum", Add{}); }), "layer 'sum' is invalid: an addition takes 2 inputs, not 1");
  EXPECT_EQ(refusal_of([&] {
              graph.add("two", Relu{}, {0, 0});
            }),
            "layer 'two' is invalid: a ReLU takes 1 input, not 2");
  EXPECT_EQ(refusal_of([&] { graph.add("wide", MaxPool{.kernel = 3, .stride = 3}); }),
            "layer 'wide' is invalid: a kernel of 3 does not fit an input of 1x2x2x2; use a smaller kernel or more "
            "padding");
  EXPECT_EQ(refusal_of([&] { graph.add("still", MaxPool{.kernel = 2, .stride = 0}); }),
            "layer 'still' is invalid: stride is 0; it must be at least 1");
  EXPECT_EQ(refusal_of([&] { graph.add("alone", Relu{}, {}); }), "layer 'alone' has no input");
  const int labels = add_labels(graph);
  EXPECT_EQ(refusal_of([&] { graph.add("of-labels", Relu{}, {labels}); }),
            "layer 'of-labels' reads real numbers, and 'labels' is integers");
  EXPECT_EQ(refusal_of([&] {
              graph.add("loss", CrossEntropy{}, {graph.add("fc", Linear{.out_features = 2}, {1}), labels});
            }),
            "layer 'loss' is a loss; add it by loss()");
  EXPECT_EQ(refusal_of([&] { graph.loss("relu", Relu{}, {1}); }), "layer 'relu' is no loss; add it by add()");
  EXPECT_EQ(refusal_of([&] { graph.auxiliary_loss("relu", Relu{}, {1}); }), "layer 'relu' is no loss; add it by add()");
  EXPECT_EQ(graph.nodes().size(), 2U);
}

TEST(Graph, RefusesInputsThatCannotBe) {
  Graph graph = graph_of(1, 4, 4);
  EXPECT_EQ(refusal_of([&] { graph.input({"images", {1, 4, 4}}); }), "model 'n' has an input 'images' already");
  EXPECT_EQ(refusal_of([&] { graph.input({"more", {1, 0, 4}}); }), "model 'n' cannot take 'more' of 1×0×4");
}

TEST(Graph, RefusesWhatIsIncomplete) {
  Graph graph = graph_of(1, 4, 4);
  EXPECT_EQ(refusal_of([&] { graph.check(); }), "model 'n' has no loss");
  graph.add("unread", Relu{}, {0});
  graph.add("fc", Linear{.out_features = 3}, {0});
  add_loss(graph);
  EXPECT_EQ(refusal_of([&] { graph.check(); }),
            "layer 'unread' has an output that no other layer reads, and is not a loss");
}

/// An operator that predictions alone can run.
class Reading final : public ops::CustomOperator {
 public:
  [[nodiscard]] ops::Signature signature(std::span<const ops::Shape> inputs) const override {
    return {.output = inputs[0], .has_backward = false};
  }
  [[nodiscard]] std::string text() const override { return "reading"; }
  [[nodiscard]] ops::KernelPtr make(ops::Formats /*inputs*/) const override { return nullptr; }
};

TEST(Graph, TellsWhichNodesContributeToALoss) {
  Graph graph = graph_of(1, 4, 4);
  const int features = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1});
  const int logits = graph.add("fc", Linear{.out_features = 3});
  const int relu = graph.add("relu", Relu{}, {features});
  const int read = graph.add("read", Custom{std::make_shared<Reading>()}, {relu});
  graph.loss("loss", CrossEntropy{}, {logits, add_labels(graph)});
  EXPECT_EQ(refusal_of([&] { graph.check(); }),
            "layer 'read' has an output that no other layer reads, and is not a loss");
  graph.output("read", read);
  EXPECT_NO_THROW(graph.check());
  EXPECT_EQ(graph.contributes_to_loss(), (std::vector<bool>{true, true, false, false, true}));
}

TEST(Graph, RefusesParametersAndOperatorsThatCannotBeTrained) {
  Graph untrained = graph_of(1, 4, 4);
  untrained.output("map", untrained.add("conv", Convolution{.out_channels = 2, .kernel = 1}));
  untrained.add("fc", Linear{.out_features = 3}, {0});
  add_loss(untrained);
  EXPECT_EQ(
      refusal_of([&] { untrained.check(); }),
      "layer 'conv' has the parameter 'conv.weight', which no loss depends on: only outputs read the layer, so it "
      "would not be trained");
  Graph one_way = graph_of(1, 4, 4);
  one_way.add("read", Custom{std::make_shared<Reading>()});
  one_way.add("fc", Linear{.out_features = 3});
  add_loss(one_way);
  EXPECT_EQ(refusal_of([&] { one_way.check(); }),
            "layer 'read' has no backward pass, so no loss can depend on it, only outputs");
}

TEST(Graph, SharesParameters) {
  Graph graph = graph_of(2, 4, 4);
  const int a = graph.add("a", Convolution{.out_channels = 2, .kernel = 3, .padding = 1});
  const int b = graph.add_shared("b", "a", {a});
  EXPECT_EQ(graph.nodes()[0].parameters, graph.nodes()[1].parameters);
  EXPECT_EQ(graph.parameters().tensors().size(), 2U);
  EXPECT_EQ(graph.shape(b), graph.shape(a));
  const int narrow = graph.add("narrow", Convolution{.out_channels = 1, .kernel = 1});
  EXPECT_EQ(refusal_of([&] { graph.add_shared("c", "a", {narrow}); }),
            "layer 'c' has inputs for which the parameters of 'a' have other shapes");
  EXPECT_EQ(refusal_of([&] { graph.add_shared("c", "d", {a}); }),
            "layer 'c' cannot share parameters with 'd': no such node");
}

TEST(FuseActivations, ReluBecomesPartOfItsOnlyProducer) {
  Graph graph = graph_of(1, 4, 4);
  graph.add("conv", Convolution{.out_channels = 2, .kernel = 3});
  graph.add("relu1", Relu{});
  graph.add("pool", MaxPool{});
  graph.add("relu2", Relu{});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  const Graph fused = fuse_activations(graph);
  ASSERT_EQ(fused.nodes().size(), 4U);
  EXPECT_EQ(std::get<Convolution>(fused.nodes()[0].op).activation, Activation::relu);
  EXPECT_EQ(fused.nodes()[1].name, "pool");
  EXPECT_EQ(fused.nodes()[1].inputs, std::vector<int>{fused.nodes()[0].output});
  EXPECT_EQ(std::get<MaxPool>(fused.nodes()[1].op).activation, Activation::relu);
  EXPECT_EQ(std::get<Linear>(fused.nodes()[2].op).activation, Activation::none);
  ASSERT_EQ(fused.losses().size(), 1U);
  EXPECT_EQ(fused.losses()[0].node, 3);
  EXPECT_NO_THROW(fused.check());
}

TEST(FuseActivations, LeavesAResultThatIsReadWithoutReluAlone) {
  Graph graph = graph_of(2, 4, 4);
  const int conv = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1});
  const int relu = graph.add("relu", Relu{});
  graph.add("sum", Add{}, {conv, relu});
  graph.add("fc", Linear{.out_features = 2});
  EXPECT_EQ(fuse_activations(graph).nodes().size(), 4U);
}

TEST(FuseActivations, FusesOneReluAndLeavesTheNext) {
  Graph graph = graph_of(2, 4, 4);
  graph.add("fc", Linear{.out_features = 2});
  graph.add("relu1", Relu{});
  graph.add("relu2", Relu{});
  const Graph fused = fuse_activations(graph);
  ASSERT_EQ(fused.nodes().size(), 2U);
  EXPECT_EQ(fused.nodes()[1].inputs, std::vector<int>{fused.nodes()[0].output});
}

TEST(PoolBeforeRelu, PutsAReluBehindTheMaxPoolThatAloneReadsIt) {
  Graph graph = graph_of(1, 4, 4);
  const int conv = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1});
  graph.add("relu", Relu{});
  const int pool = graph.add("pool", MaxPool{});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  const Graph ordered = pool_before_relu(graph);
  EXPECT_TRUE(std::holds_alternative<MaxPool>(ordered.nodes()[1].op));
  EXPECT_EQ(ordered.nodes()[1].name, "pool");
  EXPECT_EQ(ordered.nodes()[1].inputs, std::vector<int>{conv});
  EXPECT_EQ(ordered.shape(ordered.nodes()[1].output), graph.shape(pool));
  EXPECT_TRUE(std::holds_alternative<Relu>(ordered.nodes()[2].op));
  EXPECT_EQ(ordered.nodes()[2].output, pool);
  EXPECT_NO_THROW(ordered.check());
  const Graph fused = fuse_activations(ordered);
  EXPECT_EQ(std::get<Convolution>(fused.nodes()[0].op).activation, Activation::none);
  EXPECT_EQ(std::get<MaxPool>(fused.nodes()[1].op).activation, Activation::relu);
}

TEST(PoolBeforeRelu, LeavesAReluThatOthersReadOrWindowsThatOverlap) {
  Graph graph = graph_of(1, 9, 9);
  const int read_twice = graph.add("relu1", Relu{});
  graph.add("pool1", MaxPool{}, {read_twice});
  graph.add("relu2", Relu{}, {read_twice});
  graph.add("pool2", MaxPool{.kernel = 3});
  const Graph ordered = pool_before_relu(graph);
  for (const Node& node : ordered.nodes()) {
    const bool is_relu = node.name.starts_with("relu");
    EXPECT_EQ(std::holds_alternative<Relu>(node.op), is_relu) << node.name;
  }
}

TEST(FuseAdditions, MakesASumRightBehindABatchNormItsSecondInput) {
  Graph graph = graph_of(2, 4, 4);
  const int conv = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1});
  graph.add("norm", BatchNorm{});
  graph.add("sum", Add{}, {conv, graph.last()});
  graph.add("relu", Relu{});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  const Graph fused = fuse_activations(fuse_additions(graph));
  ASSERT_EQ(fused.nodes().size(), 4U);
  const auto& norm = std::get<BatchNorm>(fused.nodes()[1].op);
  EXPECT_TRUE(norm.residual);
  EXPECT_EQ(norm.activation, Activation::relu);
  EXPECT_EQ(fused.nodes()[1].inputs, (std::vector<int>{conv, conv}));
  EXPECT_EQ(fused.nodes()[2].inputs, std::vector<int>{fused.nodes()[1].output});
  EXPECT_NO_THROW(fused.check());
}

TEST(FuseAdditions, LeavesABatchNormAloneThatIsReadTwiceOrFurtherAway) {
  Graph graph = graph_of(2, 4, 4);
  const int twice = graph.add("twice", BatchNorm{});
  const int sum = graph.add("sum", Add{}, {twice, twice});
  const int far = graph.add("far", BatchNorm{}, {sum});
  const int conv = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1}, {sum});
  graph.add("sum2", Add{}, {far, conv});
  EXPECT_EQ(fuse_additions(graph).nodes().size(), graph.nodes().size());
}

/// Returns a block with a projection shortcut, whose two batch norms are `main` and `shortcut`.
Graph projection_block(const BatchNorm& main, const BatchNorm& shortcut) {
  Graph graph = graph_of(2, 4, 4);
  const Convolution convolution{.out_channels = 2, .kernel = 1, .bias = false};
  const int in = graph.add("stem", convolution);
  graph.add("conv", convolution);
  const int norm = graph.add("norm", main);
  graph.add("downsample", convolution, {in});
  graph.add("sum", Add{}, {norm, graph.add("downnorm", shortcut)});
  graph.add("relu", Relu{});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  return fuse_activations(fuse_additions(graph));
}

TEST(NormalizeResiduals, MergesTheBatchNormOfAShortcut) {
  const Graph before = projection_block({}, {});
  const Graph merged = normalize_residuals(before);
  ASSERT_EQ(merged.nodes().size() + 1, before.nodes().size());
  const Node& main = before.nodes()[2];
  const Node& shortcut = before.nodes()[4];
  const Node& both = merged.nodes()[3];
  EXPECT_EQ(both.name, "downnorm");
  EXPECT_TRUE(std::get<BatchNorm>(both.op).normalizes_residual);
  EXPECT_EQ(std::get<BatchNorm>(both.op).activation, Activation::relu);
  EXPECT_EQ(both.inputs, (std::vector<int>{shortcut.inputs[0], main.inputs[0]}));
  EXPECT_EQ(both.output, shortcut.output);
  EXPECT_EQ(both.parameters,
            (std::vector<int>{shortcut.parameters[0], shortcut.parameters[1], main.parameters[0], main.parameters[1]}));
  EXPECT_EQ(both.state, (std::vector<int>{shortcut.state[0], shortcut.state[1], main.state[0], main.state[1]}));
  for (std::size_t n = 0; n < merged.nodes().size(); ++n) {
    const Node& node = merged.nodes()[n];
    if (node.output >= 0) {
      EXPECT_EQ(merged.values()[static_cast<std::size_t>(node.output)].producer, static_cast<int>(n)) << node.name;
    }
  }
  EXPECT_EQ(merged.nodes()[static_cast<std::size_t>(merged.losses()[0].node)].name,
            before.nodes()[static_cast<std::size_t>(before.losses()[0].node)].name);
  EXPECT_NO_THROW(merged.check());
  // Each convolution gives the statistics of its own input.
  const Graph summed = sum_in_convolutions(merged);
  EXPECT_EQ(summed.nodes()[1].state, std::vector<int>{main.state[0]});
  EXPECT_EQ(summed.nodes()[2].state, std::vector<int>{shortcut.state[0]});
}

TEST(NormalizeResiduals, LeavesBatchNormsAloneThatDiffer) {
  for (const BatchNorm& other :
       {BatchNorm{.epsilon = 1e-3}, BatchNorm{.momentum = 0.2}, BatchNorm{.synchronized = true}}) {
    const Graph graph = projection_block(other, {});
    EXPECT_EQ(normalize_residuals(graph).nodes().size(), graph.nodes().size()) << other.text();
  }
}

/// Otherwise gradients would be added, or running statistics be updated, in another order.
TEST(NormalizeResiduals, LeavesABatchNormAloneThatHasOtherReadersOrUsers) {
  const Convolution convolution{.out_channels = 2, .kernel = 1, .bias = false};
  for (const std::string which : {"result", "input", "state"}) {
    Graph graph = graph_of(2, 4, 4);
    const int in = graph.add("stem", convolution);
    const int main = graph.add("conv", convolution);
    const int norm = graph.add("norm", BatchNorm{});
    graph.add("downsample", convolution, {in});
    const int sum = graph.add("sum", Add{}, {norm, graph.add("downnorm", BatchNorm{})});
    const int other = which == "result" ? norm : which == "input" ? main : graph.add_shared("again", "norm", {sum});
    graph.add("sum2", Add{}, {sum, other});
    graph.add("fc", Linear{.out_features = 2});
    add_loss(graph);
    const Graph fused = fuse_additions(graph);
    EXPECT_EQ(normalize_residuals(fused).nodes().size(), fused.nodes().size()) << which;
  }
}

TEST(PoolInBatchNorms, TakesAPoolBehindABatchNormOrItsReLU) {
  Graph graph = graph_of(2, 12, 12);
  graph.add("conv", Convolution{.out_channels = 2, .kernel = 1, .bias = false});
  graph.add("norm", BatchNorm{});
  graph.add("relu", Relu{});
  graph.add("pool", MaxPool{.kernel = 3, .stride = 2, .padding = 1});
  graph.add("norm2", BatchNorm{});
  graph.add("relu2", Relu{});
  graph.add("pool2", MaxPool{});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  const Graph fused = pool_in_batch_norms(fuse_activations(pool_before_relu(graph)));
  ASSERT_EQ(fused.nodes().size(), 5U);
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}}) {
    const auto& norm = std::get<BatchNorm>(fused.nodes()[n].op);
    ASSERT_TRUE(norm.pool);
    EXPECT_EQ(norm.activation, Activation::relu);
    EXPECT_EQ(norm.pool->activation, Activation::none);
  }
  EXPECT_EQ(fused.shape(fused.nodes()[2].output), (ops::Shape{1, 2, 3, 3}));
  EXPECT_NO_THROW(fused.check());
}

TEST(PoolInBatchNorms, LeavesOtherPoolsAlone) {
  for (const std::string which : {"overlapping", "read twice", "residual"}) {
    Graph graph = graph_of(2, 12, 12);
    const int in = graph.add("conv", Convolution{.out_channels = 2, .kernel = 1, .bias = false});
    int norm = graph.add("norm", BatchNorm{});
    if (which == "residual") norm = graph.add("sum", Add{}, {norm, in});
    const int pooled = graph.add("pool", MaxPool{.kernel = 3, .stride = which == "overlapping" ? 1 : 3}, {norm});
    const MaxPool other{.kernel = 3, .stride = 3};
    if (which == "read twice") graph.add("sum", Add{}, {pooled, graph.add("pool2", other, {norm})});
    graph.add("fc", Linear{.out_features = 2});
    add_loss(graph);
    const Graph fused = fuse_activations(fuse_additions(graph));
    EXPECT_EQ(pool_in_batch_norms(fused).nodes().size(), fused.nodes().size()) << which;
  }
}

TEST(SumInConvolutions, TakesPlainConvolutionsRightBeforeABatchNorm) {
  Graph graph = graph_of(2, 4, 4);
  const int first = graph.add("first", Convolution{.out_channels = 2, .kernel = 1, .bias = false});
  const int norm = graph.add("norm", BatchNorm{});
  const int again = graph.add("again", BatchNorm{}, {first});  // makes its statistics itself
  graph.add("sum", Add{}, {norm, again});
  graph.add("biased", Convolution{.out_channels = 2, .kernel = 1});
  graph.add("norm2", BatchNorm{});
  graph.add("relu", Relu{});
  graph.add("last", Convolution{.out_channels = 2, .kernel = 1, .bias = false});
  graph.add("fc", Linear{.out_features = 2});
  add_loss(graph);
  const Graph summed = sum_in_convolutions(graph);
  std::string found;
  for (const Node& node : summed.nodes()) {
    const auto* convolution = std::get_if<Convolution>(&node.op);
    if (convolution == nullptr || !convolution->statistics) continue;
    found += node.name;
    EXPECT_EQ(node.state, std::vector<int>{summed.nodes()[1].state[0]});
  }
  EXPECT_EQ(found, "first");
  EXPECT_EQ(summed.state().count().value, graph.state().count().value);
  EXPECT_NO_THROW(summed.check());
}

}  // namespace
}  // namespace lockstep::nn
