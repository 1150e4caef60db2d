// SPDX-License-Identifier: Apache-2.0
// Trains a model with batch norm on several ranks. Each rank normalizes by its own samples, so the sums of a step and
// the statistics for evaluation are those of several small batches, which every rank computes by itself here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "lockstep/mpi/world.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/trainee.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::uint64_t seed = 5;
constexpr double rate = 0.1;

/// The samples of rank r, which has r + 2 of them.
struct Share {
  Share(const nn::Graph& network, int rank)
      : samples(rank + 2),
        images(nn::wavy(samples * nn::image_elements(network), 0.7 * rank)),
        labels(nn::cycling_labels(samples, 3)) {}

  std::int64_t samples;
  std::vector<double> images;
  std::vector<std::int32_t> labels;
};

std::vector<double> elements(const Buffer& buffer) {
  const auto* begin = static_cast<const double*>(buffer.data);
  return {begin, begin + buffer.count.value};
}

void add(std::vector<double>& to, const std::vector<double>& from, double weight = 1) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += weight * from[i];
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << what << ", element " << i;
}

struct Expected {
  std::vector<double> gradients;
  std::vector<double> state;
};

/// Returns the sum of the shares' gradients, divided by the number of samples, and the mean of their statistics,
/// weighted by samples.
Expected of_small_batches(const nn::Graph& network, int ranks, std::int64_t all_samples) {
  Expected expected;
  for (int rank = 0; rank < ranks; ++rank) {
    const Share share(network, rank);
    nn::Trainee trainee(network, seed);
    trainee.differentiate(share.images, share.labels);
    add(expected.gradients, trainee.gradients, 1 / static_cast<double>(all_samples));
    add(expected.state, trainee.state, static_cast<double>(share.samples) / static_cast<double>(all_samples));
  }
  return expected;
}

TEST(BatchNorm, OnSeveralRanksIsThatOfAsManySmallBatches) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const nn::Graph network = nn::knotty_network();
    const auto ops = ops::make_reference_ops();
    Replica replica(members, *ops, network, {network.inputs()}, {.precision = DType::float64, .seed = seed}, nullptr);
    Share own(network, world.rank().value);
    const std::int64_t all = world.size() * (world.size() + 3) / 2;
    const std::array<Buffer, 2> tensors{Buffer(std::span(own.images)), Buffer(std::span(own.labels))};
    RunState run;
    replica.submit({.samples = {own.samples}, .step_samples = {all}, .tensors = tensors}, rate, run.global_step);
    replica.finish(run);
    const Expected expected = of_small_batches(network, world.size(), all);
    expect_near(elements(replica.data_parallel().gradients()), expected.gradients, "gradients");
    nn::Trainee before(network, seed);
    add(before.parameters, expected.gradients, -rate);
    expect_near(elements(replica.store().values()), before.parameters, "weights");
    replica.store().statistics().average();
    expect_near(elements(replica.store().statistics().part(0)), expected.state, "running statistics");
  }
  members.close();
  world.close();
}

/// A single process with the whole batch.
template <typename Real>
struct Whole {
  Whole(const nn::Graph& graph, ops::Ops& ops, const nn::OptimizerOptions& optimizer)
      : model(graph, ops, {.dtype = dtype_of<Real>(), .optimizer = optimizer}),
        parameters(static_cast<std::size_t>(model.parameters().count().value)),
        gradients(parameters.size()),
        velocity(parameters.size()),
        state(static_cast<std::size_t>(model.state().count().value)) {
    model.bind({.parameters = std::span(parameters),
                .gradients = std::span(gradients),
                .state = std::span(state),
                .optimizer_state = {std::span(velocity)}});
    model.initialize(seed);
  }
  nn::Model model;
  std::vector<Real> parameters;
  std::vector<Real> gradients;
  std::vector<Real> velocity;
  std::vector<Real> state;
};

template <typename Real>
void expect_close(const Buffer& actual, const std::vector<Real>& expected, double bound, const std::string& what) {
  ASSERT_EQ(actual.count.value, static_cast<std::int64_t>(expected.size()));
  const auto* values = static_cast<const Real*>(actual.data);
  double largest = 0;
  for (const Real value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], bound * std::max(1.0, largest)) << what << ", element " << i;
}

/// The ranks' shares of 11 samples differ; with more than two ranks the last one has none.
template <typename Real>
void expect_synchronized_batch_norm_is_that_of_the_whole_batch(std::unique_ptr<ops::Ops> ops, int steps, double bound) {
  constexpr std::int64_t all = 11;
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const nn::Graph network = nn::knotty_network();
    const nn::OptimizerOptions optimizer{.momentum = 0.9};
    const TrainerOptions options{
        .precision = dtype_of<Real>(), .optimizer = optimizer, .sync_batch_norm = true, .seed = seed};
    Replica replica(members, *ops, network, {network.inputs()}, options, nullptr);
    Whole<Real> whole(network, *ops, optimizer);
    const std::int64_t dealt = world.size() > 2 ? world.size() - 1 : world.size();
    const std::int64_t rank = std::min<std::int64_t>(world.rank().value, dealt);
    const std::int64_t first = all * rank * rank / (dealt * dealt);  // later ranks have more samples
    const std::int64_t end = rank < dealt ? all * (rank + 1) * (rank + 1) / (dealt * dealt) : first;
    for (int step = 0; step < steps; ++step) {
      const std::vector<double> drawn = nn::wavy(all * nn::image_elements(network), step);
      std::vector<Real> images(drawn.begin(), drawn.end());
      std::vector<std::int32_t> labels = nn::cycling_labels(all, 3);
      const std::array<Buffer, 2> tensors{
          Buffer(std::span(images).subspan(static_cast<std::size_t>(first * nn::image_elements(network)))),
          Buffer(std::span(labels).subspan(static_cast<std::size_t>(first)))};
      RunState run;
      replica.submit({.samples = {end - first}, .step_samples = {all}, .tensors = tensors}, rate, run.global_step);
      replica.finish(run);
      const void* inputs[] = {images.data(), labels.data()};
      nn::SingleRank alone;
      const double loss =
          whole.model.train({all, inputs}, {.learning_rate = rate, .samples = static_cast<double>(all)}, alone).loss;
      EXPECT_NEAR(run.last_loss, loss, bound);
      expect_close(replica.data_parallel().gradients(), whole.gradients, bound, "gradients");
      expect_close(replica.data_parallel().values(), whole.parameters, bound, "weights");
    }
    expect_close(replica.store().statistics().part(0), whole.state, bound, "running statistics");
  }
  members.close();
  world.close();
}

TEST(SynchronizedBatchNorm, IsThatOfTheWholeBatchInFloat64) {
  expect_synchronized_batch_norm_is_that_of_the_whole_batch<double>(ops::make_reference_ops(), 3, 1e-12);
}

TEST(SynchronizedBatchNorm, IsThatOfTheWholeBatchInFloat32) {
  expect_synchronized_batch_norm_is_that_of_the_whole_batch<float>(ops::make_reference_ops(), 1, 1e-5);
}

TEST(SynchronizedBatchNorm, IsThatOfTheWholeBatchOnOneDnn) {
  expect_synchronized_batch_norm_is_that_of_the_whole_batch<float>(ops::make_onednn_ops(1), 1, 1e-5);
}

}  // namespace
}  // namespace lockstep::trainer
