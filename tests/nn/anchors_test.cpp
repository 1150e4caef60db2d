// SPDX-License-Identifier: Apache-2.0
// A small detector with anchors: its steps, its predictions, and its extents.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/trainee.hpp"

namespace lockstep::nn {
namespace {

const std::vector<ops::AnchorSize> small_anchors{{5, 6}, {9, 12}};
const std::vector<ops::AnchorSize> large_anchors{{16, 14}, {22, 30}};
constexpr std::int64_t most_boxes = 4;

/// Adds the losses of a level. @return its decoded boxes
int add_level(Graph& graph, const std::string& name, int map, int boxes, const std::vector<ops::AnchorSize>& anchors,
              std::int64_t stride) {
  using Part = AnchorLoss::Part;
  for (const auto& [part, text, gain] :
       {std::tuple{Part::box, "box", 0.05}, {Part::objectness, "objectness", 1.0}, {Part::classes, "classes", 0.5}}) {
    graph.loss(name + "." + text, AnchorLoss{.part = part, .anchors = anchors, .stride = stride}, {map, boxes}, gain,
               Normalizer::weight);
  }
  return graph.add(name + ".decode", AnchorDecode{.anchors = anchors, .stride = stride}, {map});
}

/// Two levels for images of 32 × 32 pixels, or another side, and 3 classes.
Graph detector(std::int64_t side = 32) {
  Graph graph("anchors");
  graph.input({"images", {3, side, side}});
  const int boxes = graph.input({"boxes", {5, 1, most_boxes}});
  const int fine = graph.add("conv1", Convolution{.out_channels = 8, .kernel = 3, .stride = 4, .padding = 1}, {0});
  const int first = graph.add("head1", Convolution{.out_channels = 16, .kernel = 1});
  graph.add("conv2", Convolution{.out_channels = 12, .kernel = 3, .stride = 2, .padding = 1}, {fine});
  const int second = graph.add("head2", Convolution{.out_channels = 16, .kernel = 1});
  const int of_first = add_level(graph, "level1", first, boxes, small_anchors, 4);
  const int of_second = add_level(graph, "level2", second, boxes, large_anchors, 8);
  graph.output("detections", graph.add("detections", Concat{.axis = Axis::width}, {of_first, of_second}),
               {.name = "output0", .channels_last = true});
  return graph;
}

/// Images, and boxes of two samples, of which the second has none if `is_any_empty`.
template <typename Real>
struct Batch {
  std::vector<Real> images;
  std::vector<Real> boxes;

  explicit Batch(bool has_boxes, std::int64_t side = 32) {
    const std::vector<double> drawn = wavy(2 * 3 * side * side);
    images.assign(drawn.begin(), drawn.end());
    const std::vector<double> first{0, 2, 1, -1, 6, 20, 13, 0, 9, 22, 27, 0, 5, 8, 20, 0, 7, 11, 18, 0};
    const std::vector<double> second{1, -1, -1, -1, 16, 0, 0, 0, 15, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0};
    for (const auto& of : {first, second})
      for (std::size_t i = 0; i < of.size(); ++i)
        boxes.push_back(static_cast<Real>(has_boxes ? of[i] : i < most_boxes ? -1.0 : 0.0));
  }
  template <typename Trained>
  StepResult step(Trained& trained, std::size_t extents = 0) {
    const void* inputs[] = {images.data(), boxes.data()};
    SingleRank alone;
    return trained.model.train({.samples = 2, .inputs = inputs, .extents = extents}, {.samples = 2}, alone);
  }
  template <typename Trained>
  Prediction predict(Trained& trained, std::size_t extents = 0) {
    const void* inputs[] = {images.data(), boxes.data()};
    return trained.model.predict({.samples = 2, .inputs = inputs, .extents = extents});
  }
};

TEST(Anchors, WithoutBoxesTrainTheObjectnessAlone) {
  Trainee trained(detector());
  Batch<double> batch(false);
  const StepResult result = batch.step(trained);
  EXPECT_TRUE(result.finite);
  const auto sums = trained.model.own_loss_sums();
  EXPECT_NEAR(result.loss, sums[1].loss / 256 + sums[4].loss / 64, 1e-12);
  const TensorSlot& bias = trained.model.parameters().find("head1.bias");
  for (std::int64_t i = 0; i < bias.count.value; ++i)
    EXPECT_EQ(trained.gradients[static_cast<std::size_t>(bias.offset.value + i)] != 0, i % 8 == 4) << i;
}

/// Central differences of the weights cannot be taken, because targets of the objectness are constant. Those of the
/// last bias of each class can.
TEST(Anchors, GradientsOfClassesAreDerivatives) {
  Trainee trained(detector());
  Batch<double> batch(true);
  (void)batch.step(trained);
  const std::vector<double> gradients = trained.gradients;
  for (const char* name : {"head1.bias", "head2.bias"}) {
    const TensorSlot& bias = trained.model.parameters().find(name);
    for (const std::int64_t i : {5, 7, 14}) {
      const auto at = static_cast<std::size_t>(bias.offset.value + i);
      const double value = trained.parameters[at];
      constexpr double h = 1e-5;
      trained.parameters[at] = value + h;
      const double above = batch.step(trained).loss;
      trained.parameters[at] = value - h;
      const double below = batch.step(trained).loss;
      trained.parameters[at] = value;
      EXPECT_NEAR((above - below) / (2 * h), gradients[at], 1e-8);
      EXPECT_NE(gradients[at], 0);
    }
  }
}

TEST(Anchors, GradientsOfOneDnnAgreeWithTheReference) {
  TraineeOf<float> fast(detector(), 1, nullptr, ops::make_onednn_ops(2));
  Trainee exact(detector());
  exact.parameters.assign(fast.parameters.begin(), fast.parameters.end());
  Batch<float> rounded(true);
  Batch<double> batch(true);
  batch.images.assign(rounded.images.begin(), rounded.images.end());
  const double loss = batch.step(exact).loss;
  EXPECT_NEAR(rounded.step(fast).loss, loss, 1e-5 * loss);
  for (std::size_t i = 0; i < exact.gradients.size(); ++i)
    EXPECT_NEAR(fast.gradients[i], exact.gradients[i], 1e-6) << i;
}

/// Parts of a loss add to one gradient of a map, and not to three that are summed.
TEST(Anchors, PartsOfALossShareAGradient) {
  Trainee trained(detector());
  for (const OperatorReport& report : trained.model.operators(2))
    EXPECT_EQ(report.name.find("add gradients of head"), std::string::npos) << report.name;
}

TEST(Anchors, PredictBoxesInPixelsOfEachExtent) {
  Trainee trained(detector());
  const std::size_t large = trained.model.add_extents(detector(64));
  std::fill(trained.parameters.begin(), trained.parameters.end(), 0.0);
  for (const auto& [extents, side] : {std::pair<std::size_t, std::int64_t>{0, 32}, {large, 64}}) {
    Batch<double> batch(true, side);
    const Prediction prediction = batch.predict(trained, extents);
    const std::int64_t fine = side / 4 * side / 4;
    const std::int64_t boxes = 2 * fine + 2 * (side / 8 * side / 8);
    ASSERT_EQ(prediction.outputs.size(), 1U);
    ASSERT_EQ(prediction.outputs[0].count.value, 2 * 8 * boxes);
    const auto* numbers = static_cast<const double*>(prediction.outputs[0].data);
    const auto at = [&](std::int64_t k, std::int64_t box) { return numbers[k * boxes + box]; };
    const std::int64_t third = fine + side / 4 + 2;  // of the second anchor, in the second row
    EXPECT_EQ(at(0, third), 10);
    EXPECT_EQ(at(1, third), 6);
    EXPECT_EQ(at(2, third), 9);
    EXPECT_EQ(at(3, third), 12);
    EXPECT_EQ(at(4, third), 0.5);
    EXPECT_EQ(at(0, boxes - 1), static_cast<double>(side) - 4) << "the last box is that of the last cell";
    EXPECT_EQ(at(3, boxes - 1), 30);
  }
}

TEST(Anchors, PredictInFloat32WhereActivationsAreRounded) {
  const auto make = [] {
    return ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::HalfPrecision::emulated);
  };
  TraineeOf<float> trained(detector(), 1, nullptr, make());
  const Prediction prediction = Batch<float>(true).predict(trained);
  const auto* numbers = static_cast<const float*>(prediction.outputs[0].data);
  std::int64_t longer = 0;
  for (std::int64_t i = 0; i < prediction.outputs[0].count.value; ++i) {
    const float last = std::ldexp(1.0F, std::ilogb(numbers[i]) - 7);
    longer += std::nearbyint(numbers[i] / last) * last != numbers[i] ? 1 : 0;
  }
  EXPECT_GT(longer, prediction.outputs[0].count.value * 9 / 10) << "boxes were rounded to 8 bits";
}

TEST(Anchors, HaveSmoothedLabels) {
  int smoothed = 0;
  const Graph graph = smooth_labels(detector(), 0.1);
  for (const Node& node : graph.nodes())
    if (const auto* loss = std::get_if<AnchorLoss>(&node.op)) {
      EXPECT_EQ(loss->label_smoothing, loss->part == AnchorLoss::Part::classes ? 0.1 : 0) << node.name;
      ++smoothed;
    }
  EXPECT_EQ(smoothed, 6);
}

}  // namespace
}  // namespace lockstep::nn
