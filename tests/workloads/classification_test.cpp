// SPDX-License-Identifier: Apache-2.0
#include "workloads/classification/classification.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/trainer/metric.hpp"
#include "workloads/bundled.hpp"

namespace lockstep::workloads {
namespace {

const std::vector<std::string> six{"a", "b", "c", "d", "e", "f"};

/// Returns the finding of the second of two samples with six classes.
std::unique_ptr<Finding> finding_of(std::array<float, 6> logits) {
  const nn::Graph graph = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 6));
  const Find find = classification().find({.graph = graph, .tensors = graph.inputs(), .classes = 6}, {});
  std::vector<float> both(6, 100);
  both.insert(both.end(), logits.begin(), logits.end());
  const std::array<Buffer, 1> outputs{Buffer(std::span(both))};
  return find({.losses = {}, .outputs = outputs}, {}, 1);
}

TEST(Classification, FindsTheFiveLikeliestClasses) {
  nlohmann::ordered_json object;
  finding_of({0, 2, 0, 1, -1, 0})->add_to(object, six);
  std::string names;
  double sum = 0;
  for (const auto& label : object.at("labels")) {
    names += label.at("name").get<std::string>();
    EXPECT_EQ(six.at(label.at("class").get<std::size_t>()), label.at("name"));
    sum += label.at("score").get<double>();
  }
  EXPECT_EQ(names, "bdacf") << "of equal logits the first is the likelier";
  EXPECT_LT(sum, 1) << "the sixth has the rest";
  EXPECT_GT(sum, 0.95);
}

TEST(Classification, ColorsACaptionByWhetherItIsRight) {
  const auto finding = finding_of({0, 9, 0, 0, 0, 0});
  const vision::Caption right = finding->caption(six, {.label = 1});
  const vision::Caption wrong = finding->caption(six, {.label = 2});
  EXPECT_EQ(right.text, "b 100%");
  EXPECT_EQ(wrong.text, right.text);
  EXPECT_GT(right.color.green, right.color.red);
  EXPECT_GT(wrong.color.red, wrong.color.green);
}

TEST(Classification, FindsNothingWithoutANumberForEachClass) {
  const nn::Models models;
  const nn::Graph graph = models.make("unet", models.example("unet"));
  EXPECT_FALSE(classification().find({.graph = graph, .tensors = graph.inputs(), .classes = 3}, {}))
      << "which has one for each pixel";
}

TEST(Workloads, KeepTheBestCheckpointByTheMetricOfTheirField) {
  for (const trainer::Workload& workload : bundled()) {
    const std::string best = workload.name == "segmentation" ? "miou" : workload.name == "detection" ? "fitness" : "";
    EXPECT_EQ(workload.best_metric, best) << workload.name << ": accuracy, or else loss, where it is empty";
  }
}

TEST(Workloads, OfAllModelsAreThere) {
  const std::vector<trainer::Workload> workloads = bundled();
  const nn::Models models;
  for (const std::string_view name : models.names()) {
    const auto workload = std::ranges::find(workloads, models.workload(name), &trainer::Workload::name);
    ASSERT_NE(workload, workloads.end()) << name;
    const nn::Graph graph = models.make(name, models.example(name));
    const auto metrics = workload->metrics(graph, graph.inputs(), {});
    EXPECT_EQ(metrics.front()->values().front().name, "loss") << name;
  }
}

}  // namespace
}  // namespace lockstep::workloads
