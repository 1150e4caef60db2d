// SPDX-License-Identifier: Apache-2.0
// One step gives the same result on any number of ranks: the total batch is 100, and the last step has 3 samples for up
// to 4 ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr int epoch = 20;  // unit: steps

struct Record {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;  // for each recorded step, flat
  std::vector<std::vector<double>> states;     // weights, momentum buffers and EMA weights after each recorded step
  double evaluated_loss = 0;                   // after the last step
};

std::vector<double> as_doubles(const Buffer& buffer) {
  std::vector<double> values(static_cast<std::size_t>(buffer.count.value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = buffer.dtype == DType::float64 ? static_cast<const double*>(buffer.data)[i]
                                               : static_cast<double>(static_cast<const float*>(buffer.data)[i]);
  }
  return values;
}

struct Case {
  DType precision;
  ops::Ops& ops;
  const data::DatasetPair& data;
  int gradient_steps;  // number of steps for which gradients are recorded
  int accumulate = 1;  // number of micro-batches, if there are several ranks
  double clip_norm = 0;
  double ema = 0;
  nn::Graph (*network)(const nn::DataSpec&) = nullptr;  // null: lenet
  bool zero = false;                                    // whether each rank updates its part, if there are several
  int state_steps = 0;  // number of steps for which weights and optimizer state are recorded
  Bytes bucket{64 << 10};
  nn::OptimizerOptions optimizer = {.momentum = 0.9, .weight_decay = 1e-4};
  int steps = epoch;
};

nn::Graph with_dropout(const nn::DataSpec& data) {
  nn::Graph graph("with-dropout");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 8, .padding = 1});
  graph.add("relu", nn::Relu{});
  graph.add("dropout", nn::Dropout{.probability = 0.2});
  graph.add("pool", nn::MaxPool{});
  graph.add("dropout2", nn::Dropout{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Has no ReLU or max-pool, in which rounding would decide near ties, after which the runs drift apart.
nn::Graph smooth(const nn::DataSpec& data) {
  nn::Graph graph("smooth");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 32, .padding = 1});
  graph.add("silu", nn::Pointwise{.kind = nn::Pointwise::Kind::silu});
  graph.add("pool", nn::AveragePool{});
  graph.add("conv2", nn::Convolution{.out_channels = 32, .padding = 1});
  graph.add("silu2", nn::Pointwise{.kind = nn::Pointwise::Kind::silu});
  graph.add("pool2", nn::AveragePool{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Returns weights, momentum buffers and EMA weights. Collective.
std::vector<std::vector<double>> states_of(Store& store, DType precision) {
  testing_support::WholeState whole = testing_support::whole_state(store);
  std::vector<std::vector<double>> states;
  for (std::vector<std::byte>* part : {&whole.weights, &whole.optimizer_state[0], &whole.averages}) {
    if (part->empty()) continue;
    states.push_back(
        as_doubles({part->data(), {static_cast<std::int64_t>(part->size()) / size_of(precision)}, precision}));
  }
  return states;
}

/// Trains on the first `ranks` ranks of the world. @return the record, on those ranks
std::optional<Record> train_on(const World& world, int ranks, const Case& c, Layout* layout) {
  const bool member = world.rank().value < ranks;
  auto group = world.group().split(member ? std::optional<int>(0) : std::nullopt, world.rank().value);
  if (!group) return std::nullopt;
  Record record;
  {
    ProcessGroup members(*std::move(group), {.wait = {.spins_before_yield = 0}});
    const nn::DataSpec spec{c.data.train->tensors(), c.data.train->classes()};
    const nn::Graph network = c.network ? c.network(spec) : nn::make_model("lenet", spec);
    Trainer trainer(members, c.ops, network, c.data,
                    {.precision = c.precision,
                     .batch = {100},
                     .schedule = {.peak = 0.05},
                     .optimizer = c.optimizer,
                     .step = {.accumulate = ranks > 1 ? c.accumulate : 1, .clip_norm = c.clip_norm, .ema = c.ema},
                     .zero = ranks > 1 && c.zero,
                     .bucket = c.bucket});
    *layout = trainer.replica().data_parallel().layout();
    const std::int64_t whole = layout->count().value * size_of(c.precision) * (c.ema > 0 ? 2 : 1);
    const std::int64_t own = trainer.replica().store().optimizer_bytes().value;
    EXPECT_TRUE(c.zero && ranks > 1 ? own < whole * 6 / (5 * ranks) : own == whole) << own << " of " << whole;
    for (int step = 0; step < c.steps; ++step) {
      EXPECT_EQ(trainer.train_steps(1), 1);
      record.losses.push_back(trainer.state().last_loss);
      if (step < c.gradient_steps)
        record.gradients.push_back(as_doubles(trainer.replica().data_parallel().gradients()));
      if (step >= c.state_steps) continue;
      for (auto& state : states_of(trainer.replica().store(), c.precision)) record.states.push_back(std::move(state));
    }
    record.evaluated_loss = observe::value_of(trainer.evaluate(), "loss").value();
    members.close();
  }
  return record;
}

/// Returns the largest difference of a tensor's elements, relative to its largest element, over all tensors.
double worst_difference(const Layout& layout, const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (const TensorSlot& slot : layout.tensors()) {
    double largest = 0;
    double difference = 0;
    for (std::int64_t i = slot.offset.value; i < slot.offset.value + slot.count.value; ++i) {
      const auto at = static_cast<std::size_t>(i);
      largest = std::max(largest, std::abs(b[at]));
      difference = std::max(difference, std::abs(a[at] - b[at]));
    }
    worst = std::max(worst, largest == 0 ? difference : difference / largest);
  }
  return worst;
}

struct Bounds {
  double loss;
  double gradient;
};

void expect_same_on_any_number_of_ranks(const World& world, const Case& c, const Bounds& bounds) {
  Layout layout;
  const std::optional<Record> alone = train_on(world, 1, c, &layout);
  for (int ranks = 2; ranks <= world.size(); ++ranks) {
    const std::optional<Record> together = train_on(world, ranks, c, &layout);
    if (!alone) continue;  // rank 0 has the single process's record and is in every group
    for (std::size_t step = 0; step < alone->losses.size(); ++step) {
      EXPECT_LE(std::abs(together->losses[step] - alone->losses[step]), bounds.loss * std::abs(alone->losses[step]))
          << ranks << " ranks, step " << step;
    }
    EXPECT_NEAR(together->evaluated_loss, alone->evaluated_loss, bounds.loss * alone->evaluated_loss);
    for (std::size_t step = 0; step < alone->gradients.size(); ++step) {
      EXPECT_LE(worst_difference(layout, together->gradients[step], alone->gradients[step]), bounds.gradient)
          << ranks << " ranks, step " << step;
    }
    ASSERT_EQ(together->states.size(), alone->states.size());
    for (std::size_t i = 0; i < alone->states.size(); ++i)
      EXPECT_LE(worst_difference(layout, together->states[i], alone->states[i]), bounds.gradient) << ranks << " ranks";
  }
}

TEST(Equivalence, Float64OnTheReferenceOps) {
  World world;
  // With 1,903 samples, the 20th step has 3, so the last of 4 ranks has none.
  const data::DatasetPair data = testing_support::small_digits(1903, 50, 12);
  const auto ops = ops::make_reference_ops();
  expect_same_on_any_number_of_ranks(world, {DType::float64, *ops, data, epoch}, {1e-12, 1e-12});
  world.close();
}

/// Ranks have 3 micro-batches, the single process has 1. The ranks' shares of 34, 33, … samples are split unevenly, and
/// in the last step some micro-batches are empty.
TEST(Equivalence, OfMicroBatchesClippingAveragesAndDropoutInFloat64) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(1903, 50, 12);
  const auto ops = ops::make_reference_ops();
  const Case both{DType::float64, *ops, data, epoch, 3, 0.5, 0.9};
  expect_same_on_any_number_of_ranks(world, both, {1e-12, 1e-12});
  Case dropping = both;
  dropping.network = with_dropout;
  expect_same_on_any_number_of_ranks(world, dropping, {1e-12, 1e-12});
  Layout layout;
  const std::optional<Record> neither = train_on(world, 1, {DType::float64, *ops, data, 0}, &layout);
  const std::optional<Record> clipped = train_on(world, 1, {DType::float64, *ops, data, 0, 1, 0.5}, &layout);
  const std::optional<Record> averaged = train_on(world, 1, {DType::float64, *ops, data, 0, 1, 0, 0.9}, &layout);
  if (neither) {
    EXPECT_NE(clipped->losses.back(), neither->losses.back()) << "or nothing was clipped";
    EXPECT_EQ(averaged->losses, neither->losses);
    EXPECT_NE(averaged->evaluated_loss, neither->evaluated_loss) << "or the weights were evaluated";
  }
  world.close();
}

/// Each rank updates its part. Buckets hold one tensor each, and biases are too short for a part on every rank, or
/// buckets are large; parameter groups end within parts.
TEST(Equivalence, OfOwnedPartsInFloat64) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(1903, 50, 12);
  const auto ops = ops::make_reference_ops();
  Case parts{DType::float64, *ops, data, 0, 3, 0.5, 0.9, nullptr, true, epoch};
  parts.optimizer = {
      .momentum = 0.9, .nesterov = true, .weight_decay = 1e-4, .decay_vectors = false, .frozen = {"conv2.weight"}};
  for (const std::int64_t bucket : {std::int64_t{1}, std::int64_t{1} << 30}) {
    parts.bucket = {bucket};
    expect_same_on_any_number_of_ranks(world, parts, {1e-12, 1e-12});
  }
  world.close();
}

TEST(Equivalence, Float32OnOneDnn) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(2000, 50);
  const auto ops = ops::make_onednn_ops(1);
  Case c{DType::float32, *ops, data, epoch};
  c.network = smooth;
  expect_same_on_any_number_of_ranks(world, c, {1e-5, 1e-4});
  Case lenet{DType::float32, *ops, data, 1};
  lenet.steps = 1;
  expect_same_on_any_number_of_ranks(world, lenet, {1e-5, 1e-5});
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
