// SPDX-License-Identifier: Apache-2.0
// Training on GPUs from batches of bytes, which the device converts: it ends with the bits of training from the numbers
// that the host makes of them.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/augment.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/replica/host_mirror.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "vision/pattern_source.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

nn::Graph byte_network(const data::Dataset& dataset) {
  const nn::DataSpec data = nn::DataSpec::of_images(dataset.tensors()[0].extent[0], 12, 12, dataset.classes());
  nn::Graph graph("small network");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 4, .padding = 1});
  graph.add("relu", nn::Relu{});
  graph.add("pool", nn::MaxPool{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

data::DatasetPair drawn_digits() {
  data::DatasetPair data = testing_support::small_digits(165, 20, 12);
  data.train = data::augmented(data.train, {.crop = true, .flip = true});
  return data;
}

/// Pictures of several sizes, which are decoded, transformed and normalized as users' are.
data::DatasetPair pictures() {
  const auto part = [](std::int64_t samples, const char* transforms) {
    const vision::Size input{.width = 12, .height = 12};
    return std::make_shared<vision::PictureDataset>(
        std::make_shared<vision::PatternSource>(samples),
        vision::PictureOptions{.name = "pattern",
                               .input = input,
                               .transforms = vision::parse_transforms(transforms, input),
                               .normalization = {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}}});
  };
  return {part(165, "random-resized-crop,flip,color-jitter"), part(20, "letterbox")};
}

/// The same data set without bytes.
class RealNumbers final : public data::Dataset {
 public:
  explicit RealNumbers(std::shared_ptr<const data::Dataset> dataset) : dataset_(std::move(dataset)) {}
  [[nodiscard]] std::string name() const override { return dataset_->name(); }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return dataset_->tensors(); }
  [[nodiscard]] std::int64_t size() const override { return dataset_->size(); }
  [[nodiscard]] std::int64_t classes() const override { return dataset_->classes(); }
  void read(const data::SampleKey& key, std::span<const Buffer> tensors) const override {
    EXPECT_EQ(tensors[0].dtype, DType::float32);
    dataset_->read(key, tensors);
  }

 private:
  std::shared_ptr<const data::Dataset> dataset_;
};

struct Outcome {
  std::vector<float> weights;
  std::vector<observe::MetricValue> test_results;
  double loss = 0;
  bool reads_bytes = false;
};

class ByteInputs : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }

  /// Trains 11 steps of two sizes, more than the prefetcher has batches, each of two micro-batches.
  Outcome train(data::DatasetPair data, Device device, bool bytes, const ops::CudaArithmetic& arithmetic = {}) {
    ProcessGroup group(world_, {.device = device,
                                .algorithm = "tree-order",
                                .wait = {.spins_before_yield = 0},
                                .deadline = std::chrono::seconds(60)});
    Outcome outcome;
    {
      if (!bytes) data = {std::make_shared<RealNumbers>(data.train), std::make_shared<RealNumbers>(data.test)};
      const auto ops = group.gpu() ? ops::make_cuda_ops(*group.gpu(), arithmetic) : ops::make_reference_ops();
      trainer::Trainer trainer(group, *ops, byte_network(*data.train), data,
                               {.epochs = 1,
                                .batch = {16},
                                .schedule = {.peak = 0.05},
                                .optimizer = {.momentum = 0.9},
                                .step = {.accumulate = 2},
                                .workers = 2,
                                .eval_interval = 0});
      outcome.loss = trainer.run().last_loss;
      outcome.test_results = trainer.evaluate();
      const nn::Model& model = trainer.replica().model();
      outcome.reads_bytes = model.graph().inputs()[0].bytes.has_value();
      const trainer::HostMirror weights(model.device(), trainer.replica().store().values());
      const auto* first = static_cast<const float*>(weights.buffer().data);
      outcome.weights.assign(first, first + weights.buffer().count.value);
    }
    group.close();
    return outcome;
  }

  World world_;
};

TEST_F(ByteInputs, EndWithTheBitsOfRealNumbersInEveryPrecision) {
  for (const DType values : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const data::DatasetPair& data : {drawn_digits(), pictures()}) {
      SCOPED_TRACE(std::string(name(values)) + ' ' + data.train->name());
      const Outcome of_bytes = train(data, Device::cuda, true, {.values = values});
      const Outcome of_reals = train(data, Device::cuda, false, {.values = values});
      EXPECT_TRUE(of_bytes.reads_bytes);
      EXPECT_FALSE(of_reals.reads_bytes);
      EXPECT_EQ(of_bytes.weights, of_reals.weights);
      EXPECT_EQ(of_bytes.loss, of_reals.loss);
      EXPECT_EQ(of_bytes.test_results, of_reals.test_results);
    }
  }
}

TEST_F(ByteInputs, AreAugmentedAsOnTheHost) {
  for (const data::DatasetPair& data : {drawn_digits(), pictures()}) {
    const Outcome host = train(data, Device::cpu, true);
    EXPECT_FALSE(host.reads_bytes);
    const Outcome gpu = train(data, Device::cuda, true);
    EXPECT_NEAR(gpu.loss, host.loss, 1e-4 * host.loss);
    ASSERT_EQ(gpu.weights.size(), host.weights.size());
    for (std::size_t i = 0; i < host.weights.size(); ++i) EXPECT_NEAR(gpu.weights[i], host.weights[i], 1e-4) << i;
  }
}

/// A loss reads its targets as they are, so that an autoencoder's images are real numbers.
TEST_F(ByteInputs, AreNotTakenWhereALossReadsThem) {
  nn::Graph graph("autoencoder");
  const int images = graph.input({"images", {1, 12, 12}});
  graph.add("conv", nn::Convolution{.out_channels = 1, .padding = 1});
  graph.loss("difference", nn::SmoothL1{}, {graph.last(), images});
  EXPECT_FALSE(graph.take_bytes(0, {{0.5}, {0.25}}));
  EXPECT_FALSE(graph.inputs()[0].bytes);
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
