// SPDX-License-Identifier: Apache-2.0
// A wait for a peer that does not answer ends at the deadline, but not before, with an error that says what it waited
// for. All ranks are on one thread with a simulated clock, so the test does not wait for five minutes.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/algorithms.hpp"
#include "support/one_thread.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr std::chrono::duration<double> deadline = std::chrono::seconds(300);
constexpr std::int64_t elements = 100'000;

PlanOptions options_of(Algorithm algorithm) {
  return {.selection = collectives::forced({.algorithm = algorithm, .segment = {16 * 1024}}),
          .node = {.staging = {16 * 1024}},
          .deadline = deadline};
}

ClusterShape shape_for(Algorithm algorithm) {
  return {algorithm == Algorithm::shared_memory ? std::vector{0, 0, 0, 0} : std::vector{0, 0, 1, 1}};
}

/// Four ranks, each with a buffer that outlives their communicators, and an all-reduce of it.
struct WatchedCluster {
  explicit WatchedCluster(Algorithm algorithm)
      : ranks(shape_for(algorithm), options_of(algorithm), std::chrono::seconds(1)) {}

  Work submit(int rank) {
    const Buffer buffer{data[static_cast<std::size_t>(rank)].data(), {elements}, DType::float32};
    return ranks[rank].all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
  }

  std::vector<std::vector<float>> data{4, std::vector<float>(elements, 1.0F)};
  OneThread ranks;
};

struct Outcome {
  std::optional<Error> error;
  std::chrono::duration<double> waited{};
};

Outcome outcome_of(Work& work, OneThread& ranks) {
  const auto begin = ranks.now();
  Outcome outcome;
  try {
    work.wait();
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.waited = ranks.now() - begin;
  return outcome;
}

void expect_timeout(const Outcome& outcome, int self) {
  ASSERT_TRUE(outcome.error) << "the operation completed without its peer";
  const Error& error = *outcome.error;
  EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
  EXPECT_EQ(error.context().operation, "all_reduce");
  EXPECT_EQ(error.context().label, "layer3.weight");
  EXPECT_EQ(error.context().rank, self);
  EXPECT_FALSE(error.context().host.empty());
  EXPECT_FALSE(error.context().peers.empty()) << error.what();
  for (const int peer : error.context().peers) EXPECT_NE(peer, self);
  EXPECT_TRUE(error.is_consequence() || error.context().action) << error.what();
  EXPECT_GE(outcome.waited, deadline);
  EXPECT_LE(outcome.waited, 1.02 * deadline);
}

class LocalDeadline : public testing::TestWithParam<Algorithm> {};

TEST_P(LocalDeadline, APeerThatNeverSubmits) {
  WatchedCluster cluster(GetParam());
  Work work = cluster.submit(0);
  expect_timeout(outcome_of(work, cluster.ranks), 0);
  EXPECT_THROW((void)cluster.ranks[0].barrier(), Error) << "a failed communicator goes on";
}

TEST_P(LocalDeadline, APeerThatStopsBeforeItsKthStep) {
  for (const int k : {2, 5}) {
    WatchedCluster cluster(GetParam());
    std::vector<Work> works;
    for (int rank = 0; rank < 4; ++rank) works.push_back(cluster.submit(rank));
    cluster.ranks.polled[3] = false;
    for (int moved = 0; moved < k - 1;) {
      moved += cluster.ranks.progresses[3]->poll() ? 1 : 0;
      for (std::size_t rank = 0; rank < 3; ++rank) cluster.ranks.progresses[rank]->poll();
    }
    expect_timeout(outcome_of(works[0], cluster.ranks), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, LocalDeadline, testing::ValuesIn(testing_support::message_algorithms));
INSTANTIATE_TEST_SUITE_P(SharedMemory, LocalDeadline,
                         testing::Values(Algorithm::shared_memory, Algorithm::hierarchical_ring));

TEST(LocalDeadlines, DoNotCountTimeAwayFromPolling) {
  WatchedCluster cluster(Algorithm::ring);
  std::vector<Work> works;
  for (int rank = 0; rank < 4; ++rank) works.push_back(cluster.submit(rank));
  // All ranks compute for longer than the deadline, but no rank waits for another.
  cluster.ranks.pass(std::chrono::duration_cast<std::chrono::nanoseconds>(2 * deadline));
  for (Work& work : works) work.wait();
  EXPECT_EQ(cluster.data[0][0], 4.0F);
  for (auto& communicator : cluster.ranks.communicators) communicator->close();
}

}  // namespace
}  // namespace lockstep::backends
