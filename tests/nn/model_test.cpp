// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "nn/drawn_run.hpp"
#include "nn/trainee.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t small_image_elements = 128;

TEST(Model, LearnsATinyProblem) {
  // The class is the bright half of the image.
  constexpr std::int64_t batch = 16;
  std::vector<double> images = wavy(batch * 64);
  const std::vector<std::int32_t> labels = cycling_labels(batch, 2);
  for (std::int64_t i = 0; i < batch * 64; ++i) {
    const bool left = i % 8 < 4;
    if (left == (labels[static_cast<std::size_t>(i / 64)] == 0)) images[static_cast<std::size_t>(i)] += 1;
  }
  for (const char* name : {"lenet", "resnet20"}) {
    Trainee trainee(make_model(name, DataSpec::of_images(1, 8, 8, 2)));
    double loss = 0;
    for (int step = 0; step < 30; ++step) loss = trainee.step(images, labels, 0.02);
    EXPECT_LT(loss, 0.02) << name;
    EXPECT_EQ(trainee.differentiate(images.data(), labels.data(), batch).correct, batch) << name;
  }
}

TEST(Model, EveryBundledOneLearnsABatchByHeart) {
  for (const Models models; const std::string_view name : models.names()) {
    const DataSpec& data = models.example(name);
    if (data.tensors.size() > 2 || data.tensors.back().name != "labels" || data.tensors.back().elements() > 1)
      continue;  // noise cannot be learned; tests/trainer/learning_test tests them on drawn data
    DrawnRun<float> run(make_model(name, data), data.classes, {.batch = 8, .learning_rate = 0.02},
                        ops::make_onednn_ops(1));
    const double first = run.step(0);
    double loss = first;
    for (int step = 0; step < 30 && loss >= 0.3 * first; ++step) loss = run.train(8);
    EXPECT_LT(loss, 0.3 * first) << name;
  }
}

TEST(Model, InitializationDependsOnSeedAndNamesAlone) {
  const Graph lenet = make_model("lenet", DataSpec::of_images(2, 8, 8, 10));
  Trainee first(lenet, 1);
  EXPECT_EQ(first.parameters, Trainee(lenet, 1).parameters);
  EXPECT_NE(first.parameters, Trainee(lenet, 2).parameters);

  const DataSpec data = DataSpec::of_images(2, 8, 8, 2);
  Graph other("other");  // conv1 has the same name and shape, but comes after another layer
  other.input(data.at("images"));
  other.add("conv0", Convolution{.out_channels = 2, .kernel = 1});
  other.add("conv1", Convolution{.out_channels = 32, .kernel = 3, .padding = 1});
  other.add("fc", Linear{.out_features = 2});
  classify(other, data);
  Trainee second(other, 1);
  const TensorSlot& a = first.model.parameters().find("conv1.weight");
  const TensorSlot& b = second.model.parameters().find("conv1.weight");
  ASSERT_NE(a.offset, b.offset);
  EXPECT_TRUE(std::equal(first.parameters.begin() + a.offset.value,
                         first.parameters.begin() + a.offset.value + a.count.value,
                         second.parameters.begin() + b.offset.value));
}

TEST(Model, InitializationFillsTheIntervalOfEachLayer) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(3, 8, 8, 10)));
  const auto values = [&](const char* name) {
    const TensorSlot& slot = trainee.model.parameters().find(name);
    const auto begin = trainee.parameters.begin() + slot.offset.value;
    return std::vector<double>(begin, begin + slot.count.value);
  };
  const double bound = 1 / std::sqrt(64.0 * 9);
  const std::vector<double> weights = values("layer3.1.conv1.weight");
  const auto [least, greatest] = std::minmax_element(weights.begin(), weights.end());
  EXPECT_GE(*least, -bound);
  EXPECT_LT(*least, -0.99 * bound);
  EXPECT_LT(*greatest, bound);
  EXPECT_GT(*greatest, 0.99 * bound);
  EXPECT_EQ(values("bn1.weight"), std::vector<double>(16, 1));
  EXPECT_EQ(values("bn1.bias"), std::vector<double>(16, 0));
  EXPECT_EQ(trainee.state[static_cast<std::size_t>(trainee.model.state().find("bn1.running_var").offset.value)], 1);
}

TEST(Model, ReportsParametersInBackwardOrderAfterTheirLayer) {
  Trainee trainee(make_model("lenet", DataSpec::of_images(2, 8, 8, 3)));
  const std::vector<double> images = wavy(2 * small_image_elements);
  const std::vector<std::int32_t> labels = cycling_labels(2, 3);
  RecordingReducer exchange;
  trainee.differentiate(images.data(), labels.data(), 2, exchange);
  constexpr int end = RecordingReducer::pause;
  EXPECT_EQ(exchange.calls, (std::vector<int>{end, 7, 6, end, 5, 4, end, end, 3, 2, end, end, 1, 0, end}));
}

TEST(Model, AnEmptyBatchGivesZerosAndReportsTheSame) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(2, 8, 8, 3)));
  const std::vector<double> images = wavy(2 * small_image_elements);
  const std::vector<std::int32_t> labels = cycling_labels(2, 3);
  RecordingReducer full;
  trainee.differentiate(images.data(), labels.data(), 2, full);
  const std::vector<double> state = trainee.state;
  RecordingReducer empty;
  const StepResult result = trainee.differentiate(nullptr, nullptr, 0, empty);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.correct, 0);
  EXPECT_EQ(empty.calls, full.calls);
  EXPECT_EQ(trainee.gradients, std::vector<double>(trainee.gradients.size(), 0));
  EXPECT_EQ(trainee.state, state);
}

TEST(Model, BatchSizesAlternateWithoutDisturbingEachOther) {
  const Graph network = make_model("resnet20", DataSpec::of_images(2, 8, 8, 3));
  const std::vector<double> images = wavy(6 * small_image_elements);
  Trainee switching(network);
  for (const std::int64_t batch : {2, 6, 3, 2, 6, 1}) {  // a batch of 6 makes the arena move
    const std::vector<std::int32_t> labels = cycling_labels(batch, 3);
    Trainee fresh(network);
    const double loss = switching.differentiate(images.data(), labels.data(), batch).loss;
    EXPECT_EQ(loss, fresh.differentiate(images.data(), labels.data(), batch).loss);
    EXPECT_EQ(switching.gradients, fresh.gradients) << batch;
  }
  EXPECT_GT(switching.model.activation_bytes(6), switching.model.activation_bytes(2));
}

TEST(Model, EvaluationUsesRunningStatisticsAndKeepsThem) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(2, 8, 8, 3)));
  const std::vector<double> images = wavy(4 * small_image_elements);
  const std::vector<std::int32_t> labels = cycling_labels(4, 3);
  trainee.step(images, labels, 0.1);
  const std::vector<double> state = trainee.state;
  const double together = trainee.evaluate(images.data(), labels.data(), 4).loss;
  double one_by_one = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    one_by_one += trainee.evaluate(images.data() + i * small_image_elements, labels.data() + i, 1).loss;
  }
  EXPECT_NEAR(together, one_by_one, 1e-12);
  EXPECT_EQ(trainee.state, state);
}

TEST(Model, ChecksTheMemoryItIsHanded) {
  const auto ops = ops::make_reference_ops();
  const Graph lenet = make_model("lenet", DataSpec::of_images(2, 8, 8, 3));
  Model model(lenet, *ops, {.dtype = DType::float64});
  EXPECT_EQ(code_of([&] { model.initialize(1); }), ErrorCode::invalid_argument) << "no memory yet";
  std::vector<double> memory(static_cast<std::size_t>(model.parameters().count().value));
  const Buffer right = Trainee::view(memory);
  Buffer wrong = right;
  const Buffer state{nullptr, {0}, DType::float64};
  EXPECT_NO_THROW(model.bind({.parameters = right, .gradients = right, .state = state}));
  wrong.count.value -= 1;
  EXPECT_EQ(code_of([&] { model.bind({.parameters = right, .gradients = wrong, .state = state}); }),
            ErrorCode::invalid_argument);
  wrong = right;
  wrong.dtype = DType::float32;
  EXPECT_EQ(code_of([&] { model.bind({.parameters = wrong, .gradients = right, .state = state}); }),
            ErrorCode::invalid_argument);
  wrong = right;
  wrong.kind = MemoryKind::device;
  EXPECT_EQ(code_of([&] { model.bind({.parameters = right, .gradients = wrong, .state = state}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { model.prepare(-1); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)model.predict({.samples = 1}); }), ErrorCode::invalid_argument) << "inputs are missing";
  EXPECT_EQ(code_of([&] { (void)Model(lenet, *ops, {.dtype = DType::int32}); }), ErrorCode::unsupported);
  Model updated(lenet, *ops, {.dtype = DType::float64, .optimizer = OptimizerOptions{}});
  EXPECT_EQ(code_of([&] { updated.bind({.parameters = right, .gradients = right, .state = state}); }),
            ErrorCode::invalid_argument)
      << "no velocity";
}

class SpanNames final : public Observer {
 public:
  void span(const Span& span) override {
    EXPECT_EQ(span.track, "compute");
    EXPECT_LE(span.begin, span.end);
    names.emplace_back(span.name);
  }
  std::vector<std::string> names;
};

TEST(Model, TellsItsObserverHowLongLayersTake) {
  SpanNames spans;
  Trainee trainee(make_model("lenet", DataSpec::of_images(2, 8, 8, 3)), 1, &spans);
  trainee.step(wavy(2 * small_image_elements), cycling_labels(2, 3), 0.1);
  EXPECT_EQ(spans.names,
            (std::vector<std::string>{"forward conv1", "forward pool1", "forward conv2", "forward pool2", "forward fc1",
                                      "forward fc2", "forward loss", "backward loss", "backward fc2", "backward fc1",
                                      "backward pool2", "backward conv2", "backward pool1", "backward conv1"}));
}

}  // namespace
}  // namespace lockstep::nn
