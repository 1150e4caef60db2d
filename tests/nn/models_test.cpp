// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/drawn_run.hpp"
#include "nn/graph/same_model.hpp"
#include "nn/trainee.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

std::int64_t parameter_count(const Graph& network) {
  std::int64_t count = 0;
  for (const TensorSlot& tensor : network.parameters().tensors()) count += tensor.count.value;
  return count;
}

TEST(Models, LenetHasTheParametersOfItsDescription) {
  const std::int64_t by_hand = (9 * 32 + 32) + (32 * 9 * 64 + 64) + (64 * 7 * 7 * 128 + 128) + (128 * 10 + 10);
  EXPECT_EQ(parameter_count(make_model("lenet", DataSpec::of_images(1, 28, 28, 10))), by_hand);
  EXPECT_EQ(make_model("lenet", DataSpec::of_images(1, 28, 28, 10)).state().count(), Count{0});
}

TEST(Models, ResNet20HasTheParametersOfThePaper) {
  const std::int64_t convolutions = 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64);
  const std::int64_t norms = 2 * (7 * 16 + 6 * 32 + 6 * 64);
  const std::int64_t projections = (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64);
  const Graph network = make_model("resnet20", DataSpec::of_images(3, 32, 32, 10));
  EXPECT_EQ(parameter_count(network), convolutions + norms + projections + 64 * 10 + 10);
  EXPECT_EQ(parameter_count(network), 272'474);
}

/// Recorded results used a warm-up of a twentieth of the steps of a run with the model's default number of epochs.
TEST(Models, WarmUpIsATwentiethOfTheDefaultRun) {
  const Models models;
  for (const std::string_view name : models.names()) {
    const Defaults& defaults = models.defaults(name);
    if (defaults.least_warmup_steps > 0) continue;  // YOLOv5's recipe
    for (std::int64_t steps_per_epoch = 1; steps_per_epoch < 6000; ++steps_per_epoch) {
      const auto twentieth = static_cast<std::int64_t>(0.05 * static_cast<double>(defaults.epochs * steps_per_epoch));
      ASSERT_EQ(warmup_steps(defaults.warmup_epochs, steps_per_epoch), twentieth) << name << ' ' << steps_per_epoch;
    }
  }
}

/// Returns the elements of a model's only output for three drawn samples, with the initial weights.
template <typename Real>
std::vector<double> output_of(std::string_view name, std::unique_ptr<ops::Ops> ops, const OptimizationPasses& passes) {
  const Models models;
  const DataSpec& data = models.example(name);
  DrawnRun<Real> run(models.make(name, data), data.classes, {.passes = passes}, std::move(ops));
  run.draw(1);
  const Prediction prediction = run.predict(3);
  EXPECT_EQ(prediction.losses.size(), run.model.graph().losses().size());
  EXPECT_EQ(prediction.outputs.size(), 1U) << name;
  const Buffer& output = prediction.outputs.front();
  EXPECT_EQ(output.count, 3 * run.model.graph().shape(run.model.graph().outputs().front().value).count());
  const auto* first = static_cast<const Real*>(output.data);
  return {first, first + output.count.value};
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double bound,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], bound * largest) << what << ", element " << i;
}

/// Without passes nothing is fused, and no buffer shares memory with another one.
TEST(Models, PredictTheirOutputsOnAnyOperators) {
  const OptimizationPasses none{.fuse = false, .recompute = false, .reuse_memory = false};
  const Models models;
  for (const std::string_view model : models.names()) {
    const std::string name(model);
    const std::vector<double> expected = output_of<double>(name, ops::make_reference_ops(), none);
    expect_near(output_of<double>(name, ops::make_reference_ops(), {}), expected, 1e-9, name + " with passes");
    expect_near(output_of<float>(name, ops::make_onednn_ops(1), {}), expected, 2e-3, name + " on oneDNN");
    expect_near(output_of<float>(name, ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16), {}), expected,
                0.5, name + " in bfloat16");
  }
}

DataSpec pictures_with_boxes(std::int64_t side, std::int64_t classes) {
  return {{{"images", {3, side, side}}, {"boxes", {5, 1, 4}}}, classes};
}

TEST(Models, Yolov5HasAsManyParametersAsThePublishedModels) {
  EXPECT_EQ(parameter_count(make_model("yolov5n", pictures_with_boxes(640, 80))), 1'872'157);
  EXPECT_EQ(parameter_count(make_model("yolov5s", pictures_with_boxes(640, 80))), 7'235'389);
}

TEST(Models, Yolov5NamesItsTensorsAsTheOriginal) {
  const Graph graph = make_model("yolov5n", pictures_with_boxes(96, 3));
  const auto shape = [&](const char* name) { return graph.parameters().find(name).shape; };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("model.0.conv.weight"), (Shape{16, 3, 6, 6}));
  EXPECT_EQ(shape("model.2.m.0.cv1.conv.weight"), (Shape{16, 16, 1, 1}));
  EXPECT_EQ(shape("model.6.m.2.cv2.conv.weight"), (Shape{64, 64, 3, 3}));
  EXPECT_EQ(shape("model.9.cv2.conv.weight"), (Shape{256, 512, 1, 1}));
  EXPECT_EQ(shape("model.23.cv3.bn.bias"), (Shape{256}));
  EXPECT_EQ(shape("model.24.m.2.weight"), (Shape{24, 256, 1, 1}));
  EXPECT_EQ(graph.state().find("model.0.bn.running_var").shape, (Shape{16}));
  ASSERT_EQ(graph.constants().size(), 1U);
  EXPECT_EQ(graph.constants()[0].name, "model.24.anchors");
  EXPECT_EQ(graph.constants()[0].shape, (Shape{3, 3, 2}));
  EXPECT_EQ(graph.constants()[0].values.front(), 10.0 / 8);
  EXPECT_EQ(graph.constants()[0].values.back(), 326.0 / 32);
  EXPECT_EQ(graph.shape(graph.outputs()[0].value), (ops::Shape{1, 8, 1, 3 * (12 * 12 + 6 * 6 + 3 * 3)}));
}

DataSpec pictures_with_labels(std::int64_t height, std::int64_t width, std::int64_t classes) {
  return {{{"images", {3, height, width}}, {"labels", {1, height, width}, Content::integer}}, classes};
}

TEST(Models, PpLitesegHasTheParametersOfThePublishedBackboneAndItsNames) {
  const Graph graph = make_model("pp-liteseg", pictures_with_labels(512, 1024, 19));
  std::int64_t of_backbone = 0;
  for (const TensorSlot& slot : graph.parameters().tensors())
    if (slot.name.starts_with("backbone.")) of_backbone += slot.count.value;
  EXPECT_EQ(of_backbone, 5'318'304);
  const auto shape = [&](const char* name) { return graph.parameters().find(name).shape; };
  using Extents = std::vector<std::int64_t>;
  EXPECT_EQ(shape("backbone.features.0.conv.weight"), (Extents{32, 3, 3, 3}));
  EXPECT_EQ(shape("backbone.features.2.avd_layer.0.weight"), (Extents{128, 1, 3, 3}));
  EXPECT_EQ(shape("backbone.features.7.conv_list.3.bn.bias"), (Extents{128}));
  EXPECT_EQ(shape("ppseg_head.cm.stages.2.1._conv.bias"), (Extents{128}));
  EXPECT_EQ(shape("ppseg_head.arm_list.0.conv_x._conv.weight"), (Extents{64, 256, 3, 3}));
  EXPECT_EQ(shape("ppseg_head.arm_list.1.conv_xy_atten.0._conv.weight"), (Extents{2, 4, 3, 3}));
  EXPECT_EQ(shape("seg_heads.2.conv_out.weight"), (Extents{19, 64, 1, 1}));
  EXPECT_EQ(graph.state().find("ppseg_head.cm.conv_out._batch_norm.running_var").shape, (Extents{128}));
}

/// Strides need not divide the extents.
TEST(Models, PpLitesegGivesLogitsInTheSizeOfAnyPicture) {
  for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {33, 47}, {96, 64}}) {
    const Graph graph = make_model("pp-liteseg", pictures_with_labels(height, width, 4));
    EXPECT_EQ(graph.shape(graph.outputs()[0].value), (ops::Shape{1, 4, height, width}));
    EXPECT_EQ(graph.losses().size(), 3U);
    for (std::size_t term = 0; term < 3; ++term) {
      EXPECT_EQ(graph.losses()[term].coefficient, 1);
      EXPECT_EQ(graph.losses()[term].auxiliary, term > 0);
    }
  }
}

/// PyTorch's uniform numbers have at most 1 ÷ √64 here.
TEST(Models, Yolov5BeginsWithFewObjects) {
  const Models models;
  const DataSpec& data = models.example("yolov5n");
  DrawnRun<double> run(models.make("yolov5n", data), data.classes, {}, ops::make_reference_ops());
  const auto first = static_cast<std::size_t>(run.model.parameters().find("model.24.m.0.bias").offset.value);
  for (std::size_t channel = 0; channel < 21; ++channel) {
    const std::size_t k = channel % 7;
    const double expected = k < 4 ? 0 : k == 4 ? std::log(8.0 / (80 * 80)) : std::log(0.6 / (2 - 0.99999));
    EXPECT_NEAR(run.parameters[first + channel], expected, 0.125) << channel;
    EXPECT_NE(run.parameters[first + channel], expected) << channel;
  }
}

TEST(Models, Yolov5TakesOtherAnchorsAndRefusesWhatCannotBe) {
  DataSpec data = pictures_with_boxes(64, 1);
  for (int i = 0; i < 18; ++i) data.anchors.push_back(8 + i);
  const Graph graph = make_model("yolov5s", data);
  EXPECT_EQ(graph.constants()[0].values[6], 14.0 / 16);
  EXPECT_EQ(graph.losses().size(), 6U) << "a single class has no loss";
  EXPECT_EQ(make_model("yolov5s", pictures_with_boxes(64, 2)).losses().size(), 9U);
  data.image_size = 640;
  EXPECT_DOUBLE_EQ(make_model("yolov5s", data).losses()[1].coefficient, 4);
  data.anchors.pop_back();
  expect_error([&] { (void)make_model("yolov5s", data); }, ErrorCode::invalid_argument,
               {"17 numbers as anchors", "18"});
  expect_error([&] { (void)make_model("yolov5n", pictures_with_boxes(80, 2)); }, ErrorCode::invalid_argument,
               {"a multiple of 32×32 pixels, not 80×80"});
}

/// A graph that reads lines of text.
Graph reader_of(const char* model, const std::array<std::int64_t, 3>& images, std::int64_t classes) {
  DataSpec data = Models().example(model);
  data.tensors.front().extent = images;
  data.classes = classes;
  return make_model(model, data);
}

/// Returns the extents of the logits.
ops::Shape logits_of(const Graph& graph) { return graph.shape(graph.outputs().front().value); }

TEST(Models, CrnnVggHasTheNumbersAndNamesOfEasyOcr) {
  const Graph graph = reader_of("crnn-vgg", {1, 64, 200}, 96);
  constexpr std::int64_t counters = 2;  // PyTorch has one for each batch norm
  EXPECT_EQ(parameter_count(graph) + graph.state().count().value + counters, 3'782'371);
  EXPECT_EQ(logits_of(graph), (ops::Shape{1, 97, 1, 49}));
  const auto shape = [&](const char* name) { return graph.parameters().find(name).shape; };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("FeatureExtraction.ConvNet.3.bias"), Shape{64});
  EXPECT_EQ(shape("FeatureExtraction.ConvNet.15.weight"), Shape{256});
  EXPECT_EQ(shape("FeatureExtraction.ConvNet.18.weight"), (Shape{256, 256, 2, 2}));
  EXPECT_EQ(shape("SequenceModeling.0.rnn.weight_ih_l0_reverse"), (Shape{1024, 256}));
  EXPECT_EQ(shape("SequenceModeling.1.linear.weight"), (Shape{256, 512, 1, 1}));
  EXPECT_EQ(shape("Prediction.weight"), (Shape{97, 256, 1, 1}));
  EXPECT_EQ(std::get<Ctc>(graph.nodes().back().op).blank, 0);
}

TEST(Models, CrnnMv3HasAStepForFourColumnsAndTheNamesOfPaddleOcr) {
  const Graph graph = reader_of("crnn-mv3", {3, 32, 100}, 36);
  EXPECT_EQ(logits_of(graph), (ops::Shape{1, 37, 1, 25}));
  EXPECT_EQ(logits_of(reader_of("crnn-mv3", {3, 32, 320}, 36)).width, 80);
  const auto shape = [&](const char* name) { return graph.parameters().find(name).shape; };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("backbone.conv1.conv.weight"), (Shape{8, 3, 3, 3}));
  EXPECT_EQ(shape("backbone.blocks.3.bottleneck_conv.conv.weight"), (Shape{40, 1, 5, 5}));
  EXPECT_EQ(shape("backbone.blocks.14.mid_se.conv1.bias"), Shape{120});
  EXPECT_EQ(shape("backbone.blocks.12.linear_conv.bn.weight"), Shape{80});
  EXPECT_EQ(shape("neck.encoder.lstm.0.weight_ih_l0"), (Shape{384, 480}));
  EXPECT_EQ(shape("neck.encoder.lstm.1.weight_ih_l0"), (Shape{384, 192}));
  EXPECT_EQ(shape("head.fc.weight"), (Shape{37, 192, 1, 1}));
  EXPECT_EQ(std::get<Ctc>(graph.nodes().back().op).blank, 0);
  expect_error(
      [] {
        (void)reader_of("crnn-mv3", {3, 48, 100}, 36);
      },
      ErrorCode::invalid_argument, {"'crnn-mv3' needs images of 32 rows, not 48"});
}

TEST(Models, ReadersAreTheSameForLinesOfAnyWidth) {
  for (const char* model : {"crnn-mv3", "crnn-vgg"}) {
    const auto [channels, height, width] = Models().example(model).at("images").extent;
    const Graph usual = reader_of(model, {channels, height, width}, 36);
    for (const std::int64_t other : {width + 1, 3 * width})
      EXPECT_NO_THROW(require_same_model(usual, reader_of(model, {channels, height, other}, 36))) << model;
  }
}

TEST(Models, ResNetsHaveTheLayersOfTheirNames) {
  for (const int layers : {18, 20, 32, 34, 44, 50, 56}) {
    int weighted = 0;
    const Graph network = make_model("resnet" + std::to_string(layers), DataSpec::of_images(3, 32, 32, 10));
    for (const Node& layer : network.nodes()) {
      const bool shortcut = layer.name.find("downsample") != std::string::npos;
      if (!shortcut && (std::holds_alternative<Convolution>(layer.op) || std::holds_alternative<Linear>(layer.op))) {
        ++weighted;
      }
    }
    EXPECT_EQ(weighted, layers);
    EXPECT_EQ(network.name(), "resnet" + std::to_string(layers));
  }
}

TEST(Models, ResNet20NamesItsTensorsAsTorchvisionDoes) {
  const Graph graph = make_model("resnet20", DataSpec::of_images(3, 32, 32, 10));
  EXPECT_EQ(graph.parameters().at(0).name, "conv1.weight");
  EXPECT_NO_THROW((void)graph.parameters().find("layer1.0.conv1.weight"));
  EXPECT_EQ(graph.parameters().find("layer2.0.downsample.0.weight").shape, (std::vector<std::int64_t>{32, 16, 1, 1}));
  EXPECT_NO_THROW((void)graph.parameters().find("layer3.0.downsample.1.bias"));
  EXPECT_NO_THROW((void)graph.state().find("layer3.2.bn2.running_var"));
  EXPECT_EQ(code_of([&] { (void)graph.parameters().find("conv1.bias"); }), ErrorCode::invalid_argument);
}

/// torchvision documents the number of parameters of each of its models.
TEST(Models, HaveTorchvisionsParametersForPhotographs) {
  struct Expected {
    const char* model;
    std::int64_t count;
    std::vector<const char*> names;
  };
  const Expected models[] = {
      {"resnet18", 11'689'512, {"conv1.weight", "layer1.0.bn2.bias", "layer4.0.downsample.0.weight", "fc.bias"}},
      {"resnet34", 21'797'672, {"layer3.5.conv2.weight", "layer2.0.downsample.1.weight"}},
      {"resnet50", 25'557'032, {"layer1.0.conv3.weight", "layer1.0.downsample.1.bias", "layer3.5.bn3.weight"}},
      {"vgg11-bn", 132'868'840, {"features.0.weight", "features.26.bias", "classifier.3.weight", "classifier.6.bias"}},
      {"mobilenet-v2",
       3'504'872,
       {"features.0.0.weight", "features.1.conv.1.weight", "features.17.conv.3.bias", "features.18.1.bias",
        "classifier.1.weight"}},
  };
  for (const auto& [model, count, names] : models) {
    const Graph network = make_model(model, DataSpec::of_images(3, 224, 224, 1000));
    EXPECT_EQ(parameter_count(network), count) << model;
    for (const char* name : names) EXPECT_NO_THROW((void)network.parameters().find(name)) << model;
  }
}

TEST(Models, KeepSmallImagesFromShrinkingEarly) {
  const auto extent_before_mean = [](const char* model, std::int64_t side) {
    const Graph network = make_model(model, DataSpec::of_images(3, side, side, 10));
    for (const Node& node : network.nodes()) {
      if (node.name == "avgpool") return network.shape(node.inputs.front()).height;
    }
    return std::int64_t{0};
  };
  for (const char* model : {"resnet18", "mobilenet-v2"}) {
    EXPECT_EQ(extent_before_mean(model, 32), 4) << model;
    EXPECT_EQ(extent_before_mean(model, 63), 8) << model;
    EXPECT_EQ(extent_before_mean(model, 64), 2) << model;
    EXPECT_EQ(extent_before_mean(model, 224), 7) << model;
  }
  EXPECT_EQ(extent_before_mean("resnet50", 32), 1);
  EXPECT_EQ(make_model("vgg11-bn", DataSpec::of_images(3, 32, 32, 10)).parameters().find("classifier.0.weight").shape,
            (std::vector<std::int64_t>{512, 512}));
  EXPECT_EQ(code_of([&] { (void)make_model("vgg11-bn", DataSpec::of_images(1, 28, 28, 10)); }),
            ErrorCode::invalid_argument);
}

/// A model of which data belong to one stem can have the other one.
TEST(Models, HaveTheStemThatIsChosen) {
  const auto data_of = [](std::int64_t side, Stem stem) {
    DataSpec data = DataSpec::of_images(3, side, side, 10);
    data.stem = stem;
    return data;
  };
  const Models models;
  for (const char* model : {"resnet18", "resnet34", "resnet50", "mobilenet-v2", "vgg11-bn"}) {
    for (const Stem stem : {Stem::cifar, Stem::imagenet}) {
      EXPECT_EQ(models.stem(model, data_of(32, stem)), stem) << model;
      EXPECT_EQ(models.make(model, data_of(32, stem)).parameters().hash(),
                models.make(model, data_of(64, stem)).parameters().hash())
          << model << ": the layout does not depend on the extent";
    }
    const bool is_for_photographs = std::string_view(model) == "resnet50";
    EXPECT_EQ(models.stem(model, data_of(63, Stem::by_extent)), is_for_photographs ? Stem::imagenet : Stem::cifar);
    EXPECT_EQ(models.stem(model, data_of(64, Stem::by_extent)), Stem::imagenet) << model;
  }
  EXPECT_EQ(make_model("resnet50", data_of(32, Stem::cifar)).parameters().at(0).shape,
            (std::vector<std::int64_t>{64, 3, 3, 3}));
  EXPECT_EQ(models.stem("resnet20", data_of(32, Stem::imagenet)), std::nullopt) << "it has only one";
}

TEST(Models, FusedModelsHaveNoReluLeftOver) {
  for (const Models models; const std::string_view name : models.names()) {
    const Graph network = make_model(name, models.example(name));
    EXPECT_NO_THROW(network.check());
    const Graph fused = fuse_activations(network);
    for (const Node& layer : fused.nodes()) EXPECT_FALSE(std::holds_alternative<Relu>(layer.op)) << layer.name;
  }
}

TEST(Models, TakeOtherImagesAndClasses) {
  EXPECT_NO_THROW(make_model("lenet", DataSpec::of_images(3, 37, 20, 7)).check());
  EXPECT_NO_THROW(make_model("lenet", DataSpec::of_images(1, 4, 4, 2)).check());
  EXPECT_NO_THROW(make_model("resnet20", DataSpec::of_images(1, 28, 28, 100)).check());
  EXPECT_EQ(code_of([&] { (void)make_model("lenet", DataSpec::of_images(1, 3, 28, 10)); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)make_model("resnet20", DataSpec::of_images(3, 32, 16, 10)); }),
            ErrorCode::invalid_argument);
}

TEST(Models, ThatHalveTheirImagesSayWhatExtentsTheyTake) {
  const auto refused = [](const char* model, std::array<std::int64_t, 3> images) -> std::string {
    DataSpec data = Models().example(model);
    data.tensors.front().extent = images;
    try {
      (void)make_model(model, data);
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.message();
    }
  };
  EXPECT_EQ(refused("detector", {3, 32, 40}), "model 'detector' needs images of a multiple of 16×16 pixels, not 32×40");
  EXPECT_EQ(refused("unet", {3, 12, 16}), "model 'unet' needs images of a multiple of 8×8 pixels, not 12×16");
  EXPECT_EQ(refused("crnn", {1, 8, 30}), "model 'crnn' needs images of a multiple of 8×4 pixels, not 8×30");
  EXPECT_NE(refused("detector", {3, 48, 48}).find("need a label for each position"), std::string::npos)
      << "other cells than the data set has";
}

TEST(Models, AnUnknownNameIsRefusedWithTheNearestAndTheList) {
  try {
    make_model("resnet-20", DataSpec::of_images(3, 32, 32, 10));
    FAIL() << "there is no such model";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    const std::string& message = error.message();
    EXPECT_EQ(message.find("there is no model 'resnet-20'; did you mean 'resnet20'? There are "), 0U) << message;
    for (const Models models; const std::string_view name : models.names())
      EXPECT_NE(message.find(name), std::string::npos) << message;
  }
  EXPECT_EQ(code_of([&] { (void)Models().defaults("lennet"); }), ErrorCode::invalid_argument);
}

TEST(Models, EveryModelHasDefaults) {
  for (const Models models; const std::string_view name : models.names()) {
    const Defaults& defaults = models.defaults(name);
    EXPECT_GT(defaults.learning_rate, 0) << name;
    EXPECT_GT(defaults.epochs, 0) << name;
    EXPECT_GT(defaults.batch, 0) << name;
  }
}

TEST(Models, TakeOneMoreUnderANameOfItsOwn) {
  Models models;
  const auto make = [](const DataSpec& data) {
    Graph network("tiny");
    network.input(data.at("images"));
    network.add("fc", Linear{.out_features = data.classes});
    classify(network, data);
    return network;
  };
  models.add({.name = "tiny", .make = make, .defaults = {.epochs = 7}});
  EXPECT_EQ(models.names().size(), Models().names().size() + 1);
  EXPECT_EQ(models.names().back(), "tiny");
  EXPECT_EQ(models.defaults("tiny").epochs, 7);
  EXPECT_EQ(models.make("tiny", DataSpec::of_images(1, 2, 2, 3)).nodes().size(), 2U);
  EXPECT_EQ(code_of([&] { models.add({.name = "lenet", .make = make}); }), ErrorCode::invalid_argument);
}

/// A classifier whose batch norm has a bias of 0 at first.
Graph small_classifier() {
  const DataSpec data = DataSpec::of_images(1, 2, 2, 3);
  Graph graph("classifier");
  graph.input(data.at("images"));
  graph.add("conv", Convolution{.out_channels = 2, .kernel = 1, .bias = false});
  graph.add("norm", BatchNorm{});
  graph.add("fc", Linear{.out_features = 3});
  classify(graph, data);
  return graph;
}

TEST(Graph, AddsNumbersToInitialValues) {
  Graph graph = small_classifier();
  graph.add_to_initial("fc.bias", {10, 20, -30});
  graph.add_to_initial("norm.bias", {1, 2});  // which are 0 otherwise
  TraineeOf<double> with(graph);
  TraineeOf<double> without(small_classifier());
  const Layout& layout = graph.parameters();
  const auto at = [&](const TraineeOf<double>& of, const char* name, std::size_t i) {
    return of.parameters[static_cast<std::size_t>(layout.find(name).offset.value) + i];
  };
  const std::vector<double> added{10, 20, -30};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(at(with, "fc.bias", i), added[i] + at(without, "fc.bias", i), 1e-14);
    EXPECT_NE(at(without, "fc.bias", i), 0);
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(at(with, "norm.bias", i), static_cast<double>(i + 1));
  EXPECT_EQ(at(with, "fc.weight", 0), at(without, "fc.weight", 0));
  expect_error(
      [&] {
        graph.add_to_initial("fc.bias", {1, 2});
      },
      ErrorCode::invalid_argument, {"'fc.bias'", "2 values"});
  expect_error([&] { graph.add_to_initial("fd.bias", {1}); }, ErrorCode::invalid_argument, {"'fd.bias'"});
  expect_error([&] { require_same_model(graph, small_classifier()); }, ErrorCode::invalid_argument, {"other values"});
}

TEST(Graph, HasConstantsThatAreNoParameters) {
  Graph graph = small_classifier();
  const Constant anchors{.name = "anchors", .shape = {2, 1}, .values = {0.5, 3}};
  graph.constant(anchors);
  EXPECT_EQ(graph.constants(), std::vector<Constant>{anchors});
  EXPECT_EQ(graph.parameters().count(), small_classifier().parameters().count());
  expect_error([&] { graph.constant(anchors); }, ErrorCode::invalid_argument, {"'anchors'"});
  expect_error([&] { graph.constant({"fc.bias", {1}, {1}}); }, ErrorCode::invalid_argument, {"'fc.bias'"});
  expect_error([&] { graph.constant({"norm.running_var", {1}, {1}}); }, ErrorCode::invalid_argument, {"own"});
  expect_error([&] { graph.constant({"more", {3}, {1, 2}}); }, ErrorCode::invalid_argument, {"2 numbers"});
  expect_error([&] { require_same_model(graph, small_classifier()); }, ErrorCode::invalid_argument,
               {"other constants"});
}

}  // namespace
}  // namespace lockstep::nn
