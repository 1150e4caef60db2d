// SPDX-License-Identifier: Apache-2.0
// With shards, a run gives the same bits on any number of ranks, here threads, and in any number of lanes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/thread_ranks.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr int shards = 8;

nn::Graph with_every_norm(const nn::DataSpec& data) {
  nn::Graph graph("every-norm");
  graph.input(data.at("images"));
  graph.add("conv1", nn::Convolution{.out_channels = 8, .padding = 1, .bias = false});
  graph.add("batch", nn::BatchNorm{});
  graph.add("relu1", nn::Relu{});
  graph.add("conv2", nn::Convolution{.out_channels = 8, .padding = 1});
  graph.add("group", nn::GroupNorm{.groups = 4});
  graph.add("dropout1", nn::Dropout{.probability = 0.1});
  graph.add("pool", nn::MaxPool{});
  graph.add("conv3", nn::Convolution{.out_channels = 8, .padding = 1});
  graph.add("frozen", nn::FrozenBatchNorm{});
  graph.add("relu3", nn::Relu{});
  graph.add("layer", nn::LayerNorm{});
  graph.add("dropout2", nn::Dropout{.probability = 0.2});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

struct Net {
  const char* name;
  std::function<nn::Graph(const nn::DataSpec&)> make;
};

const std::vector<Net> nets{{"lenet", [](const nn::DataSpec& data) { return nn::make_model("lenet", data); }},
                            {"resnet20", [](const nn::DataSpec& data) { return nn::make_model("resnet20", data); }},
                            {"every norm", with_every_norm}};

using MakeOps = std::unique_ptr<ops::Ops> (*)();
std::unique_ptr<ops::Ops> one_thread_of_onednn() { return ops::make_onednn_ops(1); }

/// The final tensors, and the losses; then an evaluation.
struct Outcome {
  testing_support::WholeState tensors;
  std::vector<double> losses;
  std::vector<observe::MetricValue> evaluation;
};

/// Draws a number of shards for each rank.
LeafShares draw_shares(int of_all, int ranks, std::int64_t step) {
  std::mt19937 random(static_cast<unsigned>(100 * step + ranks));
  std::vector<int> counts(static_cast<std::size_t>(ranks), 1);
  for (int more = of_all - ranks; more > 0; --more) ++counts[random() % counts.size()];
  return LeafShares(counts);
}

/// Runs two epochs of 61 samples on threads as ranks, so that the last step of each epoch has 13 samples. With 49
/// samples it has 1, and seven shards are empty.
/// @param moves  whether shards move between ranks after each step
Outcome run(const Net& net, int ranks, TrainerOptions options, MakeOps make_ops, std::int64_t samples = 61,
            bool moves = false) {
  const data::DatasetPair data = testing_support::small_digits(samples, 10, 12);
  options.epochs = 2;
  options.batch = {24};
  options.schedule = {.peak = 0.05, .decay = nn::Decay::cosine};
  options.optimizer = {.momentum = 0.9, .weight_decay = 1e-4};
  Outcome outcome;
  testing_support::on_thread_ranks(ranks, [&](ProcessGroup& group, int rank) {
    const auto ops = make_ops();
    Trainer trainer(group, *ops, net.make(nn::DataSpec::of_images(1, 12, 12, 10)), data, options);
    for (std::int64_t step = 0; step < options.epochs * trainer.steps_per_epoch(); ++step) {
      EXPECT_EQ(trainer.train_steps(1), 1);
      if (rank == 0) outcome.losses.push_back(trainer.state().last_loss);
      if (moves) trainer.move_shards(draw_shares(options.step.shards, ranks, step));
    }
    testing_support::WholeState tensors = testing_support::whole_state(trainer.replica().store());
    if (rank == 0) outcome.tensors = std::move(tensors);
    std::vector<observe::MetricValue> evaluation = trainer.evaluate();
    if (rank == 0) outcome.evaluation = std::move(evaluation);
  });
  return outcome;
}

void expect_same(const Outcome& one, const Outcome& other) {
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.evaluation, other.evaluation);
  EXPECT_EQ(one.tensors.weights, other.tensors.weights);
  EXPECT_EQ(one.tensors.optimizer_state, other.tensors.optimizer_state);
  EXPECT_EQ(one.tensors.averages, other.tensors.averages);
  EXPECT_EQ(one.tensors.statistics, other.tensors.statistics);
}

/// Expects the same results on 1 to 8 ranks, with the given options and compute library.
void expect_same_on_all(const Net& net, const TrainerOptions& options, MakeOps ops) {
  const Outcome alone = run(net, 1, options, ops);
  ASSERT_GT(alone.losses.size(), 3U);
  for (const int ranks : {2, 3, 5, 8}) {
    SCOPED_TRACE(std::string(net.name) + " on " + std::to_string(ranks) + " ranks");
    expect_same(run(net, ranks, options, ops), alone);
  }
  TrainerOptions in_parts = options;
  in_parts.zero = true;
  expect_same(run(net, 3, in_parts, ops), alone);
  for (const int lanes : {2, 3}) {
    SCOPED_TRACE(std::string(net.name) + " in " + std::to_string(lanes) + " lanes");
    TrainerOptions side_by_side = options;
    side_by_side.step.lanes = lanes;
    expect_same(run(net, 1, side_by_side, ops), alone);
    expect_same(run(net, 2, side_by_side, ops), alone);
  }
}

TEST(Shards, MakeTheSameBits) {
  for (const Net& net : nets)
    expect_same_on_all(net, {.step = {.shards = shards, .clip_norm = 1}}, one_thread_of_onednn);
}

std::unique_ptr<ops::Ops> native_bfloat16() {
  return ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::HalfPrecision::native);
}

/// Tests native bfloat16 kernels.
TEST(Shards, MakeTheSameBitsInBFloat16) {
  if (!ops::make_onednn_ops(1)->half_kernels(DType::bfloat16).exist)
    LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  for (const bool synchronized : {false, true}) {
    const TrainerOptions options{.sync_batch_norm = synchronized, .step = {.shards = shards}};
    const Outcome alone = run(nets[1], 1, options, native_bfloat16);
    expect_same(run(nets[1], 2, options, native_bfloat16), alone);
    expect_same(run(nets[1], 3, options, native_bfloat16), alone);
    TrainerOptions side_by_side = options;
    side_by_side.step.lanes = 2;
    expect_same(run(nets[1], 1, side_by_side, native_bfloat16), alone);
  }
}

TEST(Shards, MakeTheSameBitsWithSynchronizedBatchNorm) {
  for (const Net& net : nets)
    expect_same_on_all(net, {.sync_batch_norm = true, .step = {.shards = shards}}, one_thread_of_onednn);
}

TEST(Shards, MakeTheSameBitsWithAccumulationAndAverages) {
  for (const Net& net : nets)
    expect_same_on_all(net, {.step = {.shards = shards, .accumulate = 2, .clip_norm = 0.5, .ema = 0.75}},
                       one_thread_of_onednn);
}

TEST(Shards, MakeTheSameBitsWithAllOfIt) {
  expect_same_on_all(nets.back(),
                     {.sync_batch_norm = true, .step = {.shards = shards, .accumulate = 3, .clip_norm = 0.5}},
                     one_thread_of_onednn);
  expect_same_on_all(nets.back(),
                     {.precision = DType::float64, .sync_batch_norm = true, .step = {.shards = 11, .accumulate = 2}},
                     ops::make_reference_ops);
}

/// Shards that move after every step change no bit: with every kind of norm, dropout, averages and accumulation, in
/// lanes, with a sharded optimizer, and where some of them are empty.
TEST(Shards, MayMoveBetweenSteps) {
  const TrainerOptions plain{.step = {.shards = shards, .clip_norm = 1}};
  TrainerOptions all = plain;
  all.sync_batch_norm = true;
  all.step.accumulate = 2;
  all.step.ema = 0.75;
  TrainerOptions averages = plain;
  averages.step.ema = 0.75;
  for (const std::int64_t samples : {61, 49}) {
    for (const TrainerOptions& options : {plain, all, averages}) {
      const Outcome alone = run(nets.back(), 1, options, one_thread_of_onednn, samples);
      TrainerOptions side_by_side = options;
      side_by_side.step.lanes = 3;
      TrainerOptions in_parts = options;
      in_parts.zero = true;
      for (const int ranks : {2, 3, 5}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(samples) + " samples");
        expect_same(run(nets.back(), ranks, options, one_thread_of_onednn, samples, true), alone);
      }
      expect_same(run(nets.back(), 3, side_by_side, one_thread_of_onednn, samples, true), alone);
      expect_same(run(nets.back(), 3, in_parts, one_thread_of_onednn, samples, true), alone);
    }
  }
}

TEST(Shards, MoveInTheirNumberOnly) {
  const data::DatasetPair data = testing_support::small_digits(30, 10, 12);
  ProcessGroup group = std::move(ProcessGroup::of_threads(1).front());
  const auto ops = ops::make_reference_ops();
  const nn::Graph graph = nets.front().make(nn::DataSpec::of_images(1, 12, 12, 10));
  {
    Trainer trainer(group, *ops, graph, data, {.batch = {10}, .step = {.shards = 4}});
    EXPECT_EQ(code_of([&] { trainer.move_shards(5); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] {
                trainer.move_shards(LeafShares(std::vector<int>{1, 3}));
              }),
              ErrorCode::invalid_argument)
        << "of two ranks";
    EXPECT_EQ(trainer.train_steps(1), 1) << "nothing has changed";
  }
  {
    Trainer trainer(group, *ops, graph, data, {.batch = {10}});
    EXPECT_EQ(code_of([&] { trainer.move_shards(0); }), ErrorCode::invalid_argument) << "there are none";
  }
  EXPECT_EQ(code_of([&] { (void)Trainer(group, *ops, graph, data, {.batch = {10}, .balance = true}); }),
            ErrorCode::invalid_argument);
  group.close();
}

TEST(Shards, MayBeEmpty) {
  for (const bool synchronized : {false, true}) {
    const TrainerOptions options{.sync_batch_norm = synchronized, .step = {.shards = shards}};
    const auto with_a_lone_sample = [&](int ranks) {
      return run(nets.back(), ranks, options, one_thread_of_onednn, 49);
    };
    const Outcome alone = with_a_lone_sample(1);
    for (const int ranks : {3, 8}) expect_same(with_a_lone_sample(ranks), alone);
  }
}

std::unique_ptr<ops::Ops> in_bfloat16() { return ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16); }

TEST(Shards, MakeTheSameBitsInBfloat16) {
  const TrainerOptions options{.sync_batch_norm = true, .step = {.shards = shards, .accumulate = 2}};
  TrainerOptions side_by_side = options;
  side_by_side.step.lanes = 2;
  const Outcome alone = run(nets.back(), 1, options, in_bfloat16);
  expect_same(run(nets.back(), 3, options, in_bfloat16), alone);
  expect_same(run(nets.back(), 2, side_by_side, in_bfloat16), alone);
  EXPECT_NE(run(nets.back(), 1, options, one_thread_of_onednn).tensors.weights, alone.tensors.weights);
}

/// Without batch norm the sums are the same except for rounding.
TEST(Shards, ChangeNothingButTheOrderOfAddition) {
  const TrainerOptions without{.precision = DType::float64};
  TrainerOptions with = without;
  with.step.shards = shards;
  const Outcome plain = run(nets.front(), 1, without, ops::make_reference_ops);
  const Outcome cut = run(nets.front(), 3, with, ops::make_reference_ops);
  ASSERT_EQ(plain.losses.size(), cut.losses.size());
  for (std::size_t step = 0; step < plain.losses.size(); ++step)
    EXPECT_NEAR(plain.losses[step], cut.losses[step], 1e-12 * plain.losses[step]);
  EXPECT_NE(plain.tensors.weights, cut.tensors.weights) << "the order of addition does not matter for these data";
}

/// Nodes may have different processors; here one rank must not use Winograd's convolutions.
TEST(Shards, NeedRanksThatComputeAlike) {
  const data::DatasetPair data = testing_support::small_digits(30, 10, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(2, {.wait = {.spins_before_yield = 0}});
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto ops = ops::make_onednn_ops(1, rank == 1);
      try {
        const Trainer trainer(groups[static_cast<std::size_t>(rank)], *ops,
                              nets.front().make(nn::DataSpec::of_images(1, 12, 12, 10)), data,
                              {.batch = {10}, .step = {.shards = 4}});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        EXPECT_EQ(error.context().peers, std::vector<int>{1});
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
      groups[static_cast<std::size_t>(rank)].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages)
    EXPECT_NE(message.find("ranks use different kernels"), std::string::npos) << message;
  EXPECT_NE(messages[1].find("exact"), std::string::npos) << messages[1];
}

/// An operator of a program that copies its input, and throws for a negative first value.
class Throwing final : public ops::CustomOperator {
 public:
  [[nodiscard]] ops::Signature signature(std::span<const ops::Shape> inputs) const override {
    return {.output = inputs[0]};
  }
  [[nodiscard]] std::string text() const override { return "throwing"; }
  [[nodiscard]] std::unique_ptr<ops::Kernel> make(std::span<const ops::Format> inputs) const override {
    return std::make_unique<CopyKernel>(inputs[0]);
  }

 private:
  class CopyKernel final : public ops::Kernel {
   public:
    explicit CopyKernel(const ops::Format& in)
        : Kernel({.inputs = {in}, .output = in}), bytes_(static_cast<std::size_t>(in.bytes.value)) {}

   private:
    void forward(const ops::Arguments& call) override {
      if (*static_cast<const float*>(call.inputs[0]) < 0) throw Error(ErrorCode::unsupported, "a negative value");
      std::memcpy(call.output, call.inputs[0], bytes_);
    }
    void backward(const ops::Arguments& call) override {
      if (call.input_gradients[0] != nullptr) std::memcpy(call.input_gradients[0], call.output_gradient, bytes_);
    }
    std::size_t bytes_;
  };
};

/// An error in one lane is an error of the rank, which can continue afterwards.
TEST(Shards, InLanesFailAsARankDoes) {
  const auto ops = ops::make_onednn_ops(1);
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("throwing");
  graph.input(data.at("images"));
  graph.add("throwing", nn::Custom{std::make_shared<Throwing>()});
  graph.add("fc", nn::Linear{.out_features = 10});
  nn::classify(graph, data);
  nn::Model model(graph, *ops, {.step = {.shards = 2, .lanes = 2}, .own_shards = {0, 2}});
  const auto count = model.parameters().count().value;
  std::vector<float> parameters(static_cast<std::size_t>(count));
  std::vector<float> gradients(static_cast<std::size_t>(model.gradient_places() * count));
  const auto view = [](std::vector<float>& values) {
    return Buffer{values.data(), {static_cast<std::int64_t>(values.size())}, DType::float32};
  };
  model.bind({.parameters = view(parameters), .gradients = view(gradients)});
  model.initialize(1);
  std::vector<float> images(4 * 144, 0.5F);
  const std::vector<std::int32_t> labels{1, 2, 3, 4};
  const void* inputs[] = {images.data(), labels.data()};
  nn::SingleRank alone;
  for (const float pixel : {-1.0F, 1.0F}) {
    images[2 * 144] = pixel;  // of the second shard, which is in the second lane
    const auto step = [&] { return model.train({.samples = 4, .inputs = inputs}, {.samples = 4}, alone).loss; };
    if (pixel < 0) {
      EXPECT_THROW((void)step(), Error);
    } else {
      EXPECT_GT(step(), 1);
    }
  }
}

TEST(Shards, AreRefusedWhereTheyCannotBe) {
  const auto refusal = [](int ranks, const TrainerOptions& options) {
    try {
      run(nets.front(), ranks, options, one_thread_of_onednn);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(refusal(3, {.step = {.shards = 2}}).find("2 shards on 3 ranks"), std::string::npos)
      << refusal(3, {.step = {.shards = 2}});
}

}  // namespace
}  // namespace lockstep::trainer
