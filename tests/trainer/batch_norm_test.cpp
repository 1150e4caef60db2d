// SPDX-License-Identifier: Apache-2.0
// A model with batch norm on several ranks: each normalises by its own samples, so that what a step adds up, and what
// evaluation uses, are those of as many small batches, which every rank computes by itself here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/ops/reference.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "lockstep/trainer/replica.hpp"
#include "nn/trainee.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::uint64_t seed = 5;
constexpr double rate = 0.1;

/// Rank r's samples, of which it has r + 2.
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

std::vector<double> elements(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
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

/// The sum of the shares' gradients, divided by the number of samples, and the mean of their statistics by samples.
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
    Replica replica(members, *ops, network, network.inputs(), {.precision = DType::float64, .seed = seed}, nullptr);
    Share own(network, world.rank().value);
    const std::int64_t all = world.size() * (world.size() + 3) / 2;
    const std::array<Buffer, 2> tensors{Buffer(std::span(own.images)), Buffer(std::span(own.labels))};
    replica.step({.samples = {own.samples}, .step_samples = {all}, .tensors = tensors}, rate);
    const Expected expected = of_small_batches(network, world.size(), all);
    expect_near(elements(replica.data_parallel().gradients()), expected.gradients, "gradients");
    Snapshot snapshot;
    replica.save(snapshot);
    nn::Trainee before(network, seed);
    add(before.parameters, expected.gradients, -rate);
    expect_near(elements(snapshot.weights), before.parameters, "weights");
    replica.average_state();
    replica.save(snapshot);
    expect_near(elements(snapshot.state), expected.state, "running statistics");
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
