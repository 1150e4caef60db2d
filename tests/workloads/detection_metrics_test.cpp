// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/detection_metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "workloads/detection/detection_reader.hpp"
#include "workloads/detection/found_boxes.hpp"

namespace lockstep::workloads {
namespace {

using observe::MetricValue;

constexpr std::int64_t picture_count = 23;
constexpr std::int64_t output_boxes = 40;
constexpr std::int64_t output_numbers = 5 + 3;  // of each box, with three classes

/// Pictures of 64×64 with some boxes each; the class 2 has none.
class Boxes final : public vision::Source {
 public:
  Boxes() {
    std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same ones in each run
    for (std::int64_t i = 0; i < picture_count; ++i) {
      for (std::size_t n = random() % 5; n > 0; --n) {
        const auto left = static_cast<float>(random() % 40);
        const auto top = static_cast<float>(random() % 40);
        const auto side = static_cast<float>(8 + random() % 32);
        annotations_[static_cast<std::size_t>(i)].boxes.push_back({.label = static_cast<std::int32_t>(random() % 2),
                                                                   .left = left,
                                                                   .top = top,
                                                                   .right = left + side,
                                                                   .bottom = top + side,
                                                                   .is_difficult = random() % 8 == 0});
      }
    }
  }
  [[nodiscard]] std::string format() const override { return "boxes"; }
  [[nodiscard]] std::int64_t size() const override { return picture_count; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const vision::Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return std::to_string(sample); }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& /*bytes*/) const override {}

 private:
  std::vector<std::string> names_{"a", "b", "c"};
  std::vector<vision::Annotation> annotations_ = std::vector<vision::Annotation>(picture_count);
};

/// A model whose output may be that of a detector.
nn::Graph graph_of(const std::string& output, std::int64_t channels) {
  nn::Graph graph("some-model");
  graph.input({"images", {1, 1, output_boxes}});
  const int boxes = graph.add("head", nn::Convolution{.out_channels = channels, .kernel = 1});
  graph.loss("distance", nn::SmoothL1{}, {boxes, graph.input({"targets", {channels, 1, output_boxes}})});
  graph.output(output, boxes);
  return graph;
}

const std::vector<TensorSpec> batch_tensors{{"images", {1, 1, output_boxes}}, {"frame", {6, 1, 1}}};

/// What a model might give for each picture: some of its boxes, moved a little, among boxes anywhere. Scores have few
/// values, so that many are equal.
std::vector<float> outputs_for(const Boxes& source, std::int64_t picture) {
  std::mt19937 random(static_cast<unsigned>(100 + picture));
  const auto number = [&] { return static_cast<float>(random() % 5) / 4; };
  std::vector<float> outputs(output_numbers * output_boxes);
  const auto& boxes = source.annotation(picture).boxes;
  for (std::size_t i = 0; i < output_boxes; ++i) {
    const auto at = [&](std::size_t row) -> float& { return outputs[row * output_boxes + i]; };
    vision::Box box{.label = 2, .left = 30 * number(), .top = 30 * number(), .right = 40, .bottom = 50};
    const bool is_near = i < 2 * boxes.size();
    if (is_near) box = boxes[i / 2];
    at(0) = (box.left + box.right) / 4 + 8 + number();  // in an input of half the size, 8 pixels to the right
    at(1) = (box.top + box.bottom) / 4 + number();
    at(2) = (box.right - box.left) / 2;
    at(3) = (box.bottom - box.top) / 2;
    at(4) = number();
    for (std::size_t label = 0; label < 3; ++label) at(5 + label) = number();
    if (is_near) at(4) = at(5 + static_cast<std::size_t>(box.label)) = 1 - number() / 2;
  }
  return outputs;
}

/// Evaluates pictures, each rank those that it gets, in batches of up to three. @return what each rank has
struct Evaluation {
  std::vector<std::vector<MetricValue>> values;
  observe::ClassCounts classes;
};
Evaluation evaluate(const std::vector<std::vector<std::int64_t>>& shares) {
  const auto source = std::make_shared<const Boxes>();
  const nn::Graph graph = graph_of("detections", output_numbers);
  std::vector<ProcessGroup> groups =
      ProcessGroup::of_threads(static_cast<int>(shares.size()), {.wait = {.spins_before_yield = 0}});
  Evaluation result{std::vector<std::vector<MetricValue>>(shares.size()), {}};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto metrics = detection_metrics(graph, batch_tensors, source);
      trainer::Metric& metric = *metrics.back();
      metric.reset();
      for (std::size_t first = 0; first < shares[rank].size(); first += 3) {
        const auto ids = std::span(shares[rank]).subspan(first, std::min<std::size_t>(3, shares[rank].size() - first));
        std::vector<float> outputs;
        std::vector<float> frames;
        for (const std::int64_t id : ids) {
          const std::vector<float> one = outputs_for(*source, id);
          outputs.insert(outputs.end(), one.begin(), one.end());
          for (const float one_number : {0.5F, 0.5F, 8.0F, 0.0F, id == 5 ? 0.0F : 64.0F, 64.0F})
            frames.push_back(one_number);
        }
        const std::array<ops::LossSums, 1> losses{};
        const std::array<Buffer, 1> all_outputs{Buffer(std::span(outputs))};
        const std::array<Buffer, 2> batch{Buffer(), Buffer(std::span(frames))};
        metric.add({.losses = losses, .outputs = all_outputs},
                   {.samples = {std::ssize(ids)}, .ids = ids, .tensors = batch});
      }
      metric.add({}, {.samples = {0}});
      metric.reduce(groups[rank].control());
      result.values[rank] = metric.values();
      if (rank == 0) result.classes = *metric.classes();
      groups[rank].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

std::vector<std::int64_t> ids_from(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = first; i < end; ++i) all.push_back(i);
  return all;
}

TEST(DetectionMetrics, AreTheSameHoweverRanksDivideThePictures) {
  const Evaluation alone = evaluate({ids_from(0, picture_count)});
  const auto value = [&](const char* name) { return observe::value_of(alone.values[0], name).value(); };
  EXPECT_GT(value("map50"), 0.1);
  EXPECT_LT(value("map50"), 0.9);
  EXPECT_LT(value("map"), value("map50"));
  EXPECT_EQ(value("fitness"), 0.1 * value("map50") + 0.9 * value("map"));
  for (const auto& shares : std::vector<std::vector<std::vector<std::int64_t>>>{
           {ids_from(0, 4), ids_from(4, picture_count)},
           {ids_from(15, picture_count), ids_from(0, 15)},
           {ids_from(0, 9), {}, ids_from(9, picture_count)},
           {{22, 0, 3, 1}, {2}, {21, 4, 7, 6, 5, 8, 9, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10}},
           {ids_from(0, 12), ids_from(10, picture_count)}}) {  // two pictures occur twice
    for (const std::vector<MetricValue>& of_rank : evaluate(shares).values)
      EXPECT_EQ(of_rank, alone.values[0]) << "to the last bit on " << shares.size() << " ranks";
  }
}

TEST(DetectionMetrics, ReadWhatAnnotationsSayOfBoxes) {
  vision::Annotation annotation;
  annotation.boxes = {{.label = 2, .left = 1, .top = 2, .right = 11, .bottom = 22, .is_crowd = true, .area = 150},
                      {.label = 1, .left = 0, .top = 0, .right = 4, .bottom = 4, .is_difficult = true}};
  const std::vector<GroundTruth> boxes = boxes_of(annotation);
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(boxes[0].label, 2);
  EXPECT_EQ(boxes[0].box.x, 1);
  EXPECT_EQ(boxes[0].box.width, 10);
  EXPECT_EQ(boxes[0].box.bottom(), 22);
  EXPECT_EQ(boxes[0].area, 150);
  EXPECT_TRUE(boxes[0].is_crowd && !boxes[0].is_ignored);
  EXPECT_EQ(boxes[1].area, 16) << "that of the box";
  EXPECT_TRUE(boxes[1].is_ignored && !boxes[1].is_crowd);
}

TEST(DetectionMetrics, CountTheBoxesOfEachClass) {
  const observe::ClassCounts classes = evaluate({ids_from(0, picture_count)}).classes;
  const Boxes source;
  std::array<std::int64_t, 3> boxes{};
  std::array<std::int64_t, 3> with_boxes{};
  for (std::int64_t i = 0; i < picture_count; ++i) {
    std::array<bool, 3> has{};
    for (const vision::Box& box : source.annotation(i).boxes) {
      if (i == 5 || box.is_difficult) continue;  // the picture without a frame is left out
      ++boxes[static_cast<std::size_t>(box.label)];
      has[static_cast<std::size_t>(box.label)] = true;
    }
    for (std::size_t label = 0; label < 3; ++label) with_boxes[label] += has[label] ? 1 : 0;
  }
  EXPECT_EQ(classes.names, source.class_names());
  EXPECT_EQ(classes.labels, std::vector<std::int64_t>(boxes.begin(), boxes.end()));
  EXPECT_EQ(classes.images, std::vector<std::int64_t>(with_boxes.begin(), with_boxes.end()));
  ASSERT_EQ(classes.values.size(), 2U);
  EXPECT_EQ(classes.values[0].name, "AP50");
  EXPECT_GT(classes.values[0].values[1].value(), classes.values[1].values[1].value());
  EXPECT_FALSE(classes.values[1].values[2].has_value()) << "it has no boxes";
  EXPECT_GT(classes.hits[0], 0);
  EXPECT_LE(classes.hits[0], classes.predictions[0]);
}

TEST(FoundBoxes, AreReadFromTheOutputsOfAModel) {
  const Boxes source;
  const NmsOptions options{.confidence = 0.5};
  const auto find = find_boxes(graph_of("detections", output_numbers), batch_tensors, 3, options);
  std::vector<float> outputs = outputs_for(source, 1);
  const std::vector<float> second = outputs_for(source, 2);
  const std::size_t each = outputs.size();
  outputs.insert(outputs.end(), second.begin(), second.end());
  std::vector<float> frames{0.5, 0.5, 8, 0, 0, 0, 0.5, 0.5, 8, 0, 64, 64};
  const std::array<Buffer, 1> all_outputs{Buffer(std::span(outputs))};
  const std::array<Buffer, 2> batch{Buffer(), Buffer(std::span(frames))};
  const auto found = [&](std::int64_t sample) {
    const auto finding = find({.losses = {}, .outputs = all_outputs}, {.samples = {2}, .tensors = batch}, sample);
    return dynamic_cast<const FoundBoxes&>(*finding).detections();
  };
  EXPECT_TRUE(found(0).empty()) << "its picture cannot be decoded";
  const std::vector<Detection> expected = non_max_suppression(Buffer(std::span(outputs).subspan(each)), 3, options);
  const std::vector<Detection> of_second = found(1);
  ASSERT_GT(of_second.size(), 1U);
  ASSERT_EQ(of_second.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(of_second[i].label, expected[i].label);
    EXPECT_EQ(of_second[i].box.x, std::clamp((expected[i].box.x - 8) * 2, 0.0, 64.0));
  }
  EXPECT_FALSE(find_boxes(graph_of("boxes", output_numbers), batch_tensors, 3, options)) << "it has no such output";
}

TEST(DetectionMetrics, NeedAnOutputAndAFrame) {
  const auto source = std::make_shared<const Boxes>();
  const auto expect_refused = [&](const nn::Graph& graph, const std::vector<TensorSpec>& of_batch,
                                  const std::string& why) {
    try {
      (void)detection_metrics(graph, of_batch, source);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
    }
  };
  expect_refused(graph_of("boxes", output_numbers), batch_tensors, "it has no output 'detections'");
  expect_refused(graph_of("detections", 7), batch_tensors, "has 7 numbers for each box, and 3 classes need 8");
  expect_refused(graph_of("detections", output_numbers), {batch_tensors[0]}, "a batch has no tensor 'frame'");
}

TEST(DetectionMetrics, BeginWithTheLossAndHaveNoValuesBeforeAnEvaluation) {
  const nn::Graph graph = graph_of("detections", output_numbers);
  const auto metrics = detection_metrics(graph, batch_tensors, std::make_shared<const Boxes>());
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0]->values().front().name, "loss");
  std::string names;
  for (const MetricValue& value : metrics[1]->values()) {
    names += value.name + ' ';
    EXPECT_FALSE(value.value.has_value()) << value.name;
    EXPECT_TRUE(value.higher_is_better && value.is_fraction) << value.name;
  }
  EXPECT_EQ(names,
            "map50 map fitness map75 map_small map_medium map_large mar1 mar10 mar100 mar_small mar_medium mar_large "
            "precision recall f1 confidence yolov5_map50 yolov5_map ");
}

}  // namespace
}  // namespace lockstep::workloads
