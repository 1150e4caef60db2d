// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/local.hpp"

/// Tests the shortest successions in which a slow rank would lose data of others if slots were opened too early.
namespace lockstep::backends {
namespace {

constexpr int ranks = 3;
constexpr int in_a_row = 4;

/// All ranks of a node in one thread, so that the test decides which rank continues.
struct Node {
  Node() {
    const auto group = make_local_group(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      progress.push_back(std::make_unique<Progress>());
      communicators.push_back(
          make_local(group, {rank}, *progress.back(),
                     {.selection = collectives::forced({.algorithm = collectives::Algorithm::shared_memory})}));
    }
  }
  ~Node() {
    for (const auto& communicator : communicators) communicator->close();
  }
  Communicator& operator[](int rank) { return *communicators[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Progress>> progress;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

Buffer one(float& value) { return {&value, {1}, DType::float32}; }

TEST(SlowRank, FindsTheFirstSumsThoughTheOthersHaveGoneOn) {
  Node node;
  float values[ranks][3 * in_a_row];
  std::vector<Work> under_way[ranks];
  const auto submit = [&](int rank, int first, bool broadcasts) {
    for (int k = first; k < first + in_a_row; ++k) {
      float& value = values[rank][k];
      value = static_cast<float>(first == 0 ? rank + 1 : 10 * (rank + 1) + k);
      under_way[rank].push_back(broadcasts ? node[rank].broadcast(one(value), {1})
                                           : node[rank].all_reduce(one(value), one(value), ReduceOp::sum));
    }
  };
  submit(2, 0, false);  // rank 2 is then not polled for long
  submit(0, 0, false);
  submit(1, 0, false);
  for (const int rank : {0, 1}) {
    submit(rank, in_a_row, true);
    submit(rank, 2 * in_a_row, false);
  }
  for (int round = 0; round < 100; ++round)
    for (const int rank : {0, 1}) node.progress[static_cast<std::size_t>(rank)]->poll();
  for (int k = 0; k < in_a_row; ++k) {
    under_way[2][static_cast<std::size_t>(k)].wait();
    EXPECT_EQ(values[2][k], 1 + 2 + 3) << "all-reduce " << k;
  }
  submit(2, in_a_row, true);
  submit(2, 2 * in_a_row, false);
  for (int turn = 0; turn < 100; ++turn)
    for (const auto& progress : node.progress) progress->poll();
  for (auto& all : under_way)
    for (Work& work : all) work.wait();
  for (int rank = 0; rank < ranks; ++rank)
    for (int k = in_a_row; k < 2 * in_a_row; ++k) EXPECT_EQ(values[rank][k], 20 + k) << "broadcast " << k;
}

}  // namespace
}  // namespace lockstep::backends
