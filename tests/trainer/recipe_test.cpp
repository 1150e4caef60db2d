// SPDX-License-Identifier: Apache-2.0
// A run with all that YOLOv5 trains with beside plain loops that follow the formulas: the warm-up of rates and
// momentum, gradients that are added up over a number of steps that grows, weight decay on whole tensors only, and
// averages of weights and running statistics whose decay grows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "state/safetensors_file.hpp"
#include "trainer/loop/training_run.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

nn::Graph network() {
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("network");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 4, .padding = 1, .bias = false});
  graph.add("norm", nn::BatchNorm{.momentum = 0.03});
  graph.add("relu", nn::Relu{});
  graph.add("pool", nn::MaxPool{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// 61 samples are six steps, the last of which has one sample. An update has up to three.
TrainerOptions recipe() {
  return {
      .precision = DType::float64,
      .epochs = 4,
      .batch = {12},
      .schedule = {.peak = 0.01,
                   .decay = nn::Decay::polynomial,
                   .warmup_steps = 8,
                   .final_fraction = 0.01,
                   .steps_per_epoch = 6,
                   .warmup_start = 0,
                   .warmup_bias_rate = 0.1,
                   .warmup_momentum = 0.5},
      .optimizer = {.momentum = 0.9, .nesterov = true, .weight_decay = 0.02, .decay_vectors = false, .bias_rate = true},
      .nominal_batch = 40,
      .step = {.ema = 0.9, .ema_ramp = 3, .ema_statistics = true, .times_samples = true}};
}

using Doubles = std::vector<double>;

Buffer view(Doubles& values) { return {values.data(), {std::ssize(values)}, DType::float64}; }

Doubles copy_of(const Buffer& buffer) {
  const auto* begin = static_cast<const double*>(buffer.data);
  return {begin, begin + buffer.count.value};
}

void average(Doubles& averages, const Doubles& values, double decay) {
  for (std::size_t i = 0; i < values.size(); ++i) averages[i] = decay * averages[i] + (1 - decay) * values[i];
}

/// The numbers of an update.
struct Numbers {
  double rate, bias_rate, momentum, accumulate;
};

/// @param epoch, step  from 0
Numbers numbers_of(std::int64_t epoch, std::int64_t step) {
  const double falling = 0.01 * ((1 - static_cast<double>(epoch) / 4) * (1 - 0.01) + 0.01);
  const double x = std::min(static_cast<double>(step) / 8, 1.0);
  return {falling * x, 0.1 + (falling - 0.1) * x, 0.5 + (0.9 - 0.5) * x,
          std::max(1.0, std::nearbyint(1 + (40.0 / 12 - 1) * x))};
}

/// A model with the memory of a run, which plain loops update.
class PlainRun {
 public:
  PlainRun(const nn::Graph& graph, ops::Ops& ops, const std::vector<TensorSpec>& tensors)
      : inputs_(graph, tensors), model(inputs_.with_bytes(graph, ops, tensors), ops, {.dtype = DType::float64}) {
    for (Doubles* memory : {&weights, &gradients_, &sum_, &velocity_})
      memory->resize(static_cast<std::size_t>(model.parameters().count().value));
    statistics.resize(static_cast<std::size_t>(model.state().count().value));
    model.bind({.parameters = view(weights), .gradients = view(gradients_), .state = view(statistics)});
    model.initialize(1);
    average_weights = weights;
    average_statistics = statistics;
  }

  void begin_epoch() { std::fill(sum_.begin(), sum_.end(), 0.0); }
  void take_step(const data::Batch& batch, std::int64_t epoch, std::int64_t step) {
    nn::SingleRank alone;
    const auto samples = static_cast<double>(batch.samples.value);
    model.train(inputs_.feed(batch), {.samples = samples}, alone);
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += samples * gradients_[i];
    const Numbers numbers = numbers_of(epoch, step);
    if (static_cast<double>(step - last_update_) < numbers.accumulate) return;
    update(numbers);
    last_update_ = step;
  }

 private:
  void update(const Numbers& numbers) {
    for (const TensorSlot& slot : model.parameters().tensors()) {
      const double rate = slot.name.ends_with("bias") ? numbers.bias_rate : numbers.rate;
      const double decay = slot.shape.size() > 1 ? 0.02 * (12 * 3) / 40 : 0;
      for (std::int64_t element = 0; element < slot.count.value; ++element) {
        const auto i = static_cast<std::size_t>(slot.offset.value + element);
        const double g = sum_[i] + decay * weights[i];
        velocity_[i] = numbers.momentum * velocity_[i] + g;
        weights[i] -= rate * (g + numbers.momentum * velocity_[i]);
      }
    }
    begin_epoch();
    const double decay = 0.9 * (1 - std::exp(-static_cast<double>(++updates) / 3));
    average(average_weights, weights, decay);
    average(average_statistics, statistics, decay);
  }

  BatchInputs inputs_;
  Doubles gradients_, sum_, velocity_;
  std::int64_t last_update_ = -1;

 public:
  nn::Model model;
  Doubles weights, statistics, average_weights, average_statistics;
  std::int64_t updates = 0;
};

void expect_close(const Doubles& found, const Doubles& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << what << ' ' << i;
}

TEST(Recipe, FollowsItsFormulas) {
  const data::DatasetPair data = testing_support::small_digits(61, 20, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  const nn::Graph graph = network();
  const TrainerOptions options = recipe();
  Trainer trainer(groups[0], *ops, graph, data, options);
  PlainRun plain(graph, *ops, data::extents_with_bytes(*data.train).front());
  data::Prefetcher batches = make_batches(data.train, groups[0], options, plain.model, true, nullptr);
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    batches.start_epoch(epoch + 1);
    plain.begin_epoch();
    while (const data::Batch* batch = batches.next()) plain.take_step(*batch, epoch, step++);
  }
  ASSERT_EQ(step, 24);
  const RunState& run = trainer.run();
  EXPECT_EQ(run.deferred, 24 - plain.updates);
  EXPECT_GT(plain.updates, 8) << "after 24 steps, of which the first ones make an update each";
  EXPECT_LT(plain.updates, 16);
  const Store& store = trainer.replica().store();
  expect_close(copy_of(store.values()), plain.weights, "weights");
  expect_close(copy_of(store.averages()), plain.average_weights, "averages");
  Doubles statistics = plain.statistics;
  statistics.insert(statistics.end(), plain.average_statistics.begin(), plain.average_statistics.end());
  expect_close(copy_of(store.statistics().part(0)), statistics, "statistics and their averages");

  PlainRun averaged(graph, *ops, data::extents_with_bytes(*data.train).front());
  averaged.weights = plain.average_weights;
  averaged.statistics = plain.average_statistics;
  averaged.model.bind({.parameters = view(averaged.weights),
                       .gradients = view(plain.weights),  // nothing is trained any more
                       .state = view(averaged.statistics)});
  data::Prefetcher test = make_batches(data.test, groups[0], options, averaged.model, false, nullptr);
  BatchInputs inputs(graph, data::extents_with_bytes(*data.train).front());
  double loss = 0;
  test.start_epoch(1);
  while (const data::Batch* batch = test.next()) loss += averaged.model.predict(inputs.feed(*batch)).losses[0].loss;
  EXPECT_NEAR(run.evaluation[0].value.value(), loss / 20, 1e-12) << "evaluations compute with the averages";
  groups[0].close();
}

TEST(Recipe, RefusesWhatDoesNotGoTogether) {
  const data::DatasetPair data = testing_support::small_digits(61, 20, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  const nn::Graph graph = network();
  const auto expect_refused = [&](const TrainerOptions& options, const std::string& what) {
    try {
      const Trainer trainer(groups[0], *ops, graph, data, options);
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    }
  };
  TrainerOptions options = recipe();
  options.step.clip_norm = 1;
  expect_refused(options, "cannot be clipped");
  options = recipe();
  options.step.ema = 0;
  expect_refused(options, "without EMA weights");
  options = recipe();
  options.nominal_batch = -1;
  expect_refused(options, "a nominal batch of -1");
  options = recipe();
  options.schedule.decay = nn::Decay::one_cycle;
  options.schedule.warmup_steps = 0;
  expect_refused(options, "epochs of 6 steps");
  groups[0].close();
}

/// Anchors of detectors are constants.
TEST(Constants, AreSavedWithTheWeightsAndMustBeThoseOfTheCheckpoint) {
  const data::DatasetPair data = testing_support::small_digits(61, 20, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  const auto with = [](std::vector<double> values) {
    nn::Graph graph = network();
    graph.constant({.name = "anchors", .shape = {2, 1}, .values = std::move(values)});
    return graph;
  };
  const nn::Graph graph = with({1.25, 3});
  Trainer trainer(groups[0], *ops, graph, data, recipe());
  const data::TemporaryDirectory directory;
  trainer.save_checkpoints({.folder = directory.path()});
  trainer.save();
  const std::filesystem::path last = directory.path() / "checkpoints" / "last";
  const state::SafetensorsReader reader(last / "model.safetensors");
  ASSERT_GE(reader.index_of("anchors"), 0);
  Doubles saved(2);
  reader.read(reader.index_of("anchors"), {0}, view(saved));
  EXPECT_EQ(saved, (Doubles{1.25, 3}));
  EXPECT_EQ(reader.header().tensors()[static_cast<std::size_t>(reader.index_of("anchors"))].extents,
            (std::vector<std::int64_t>{2, 1}));

  Trainer same(groups[0], *ops, graph, data, recipe());
  EXPECT_NO_THROW(same.resume("last", directory.path()));
  const nn::Graph others = with({1.25, 4});
  Trainer other(groups[0], *ops, others, data, recipe());
  try {
    other.resume("last", directory.path());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("anchors 1.25 3, this run 1.25 4"), std::string::npos) << error.message();
  }
  EXPECT_NO_THROW(other.load_weights(last / "model.safetensors", WeightsMatch::strict)) << "weights may be adapted";
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer
