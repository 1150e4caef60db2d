// SPDX-License-Identifier: Apache-2.0
// A rank that has stopped is named, even if the rank that gives up first waits for another rank, which is not at fault.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/keep.hpp"
#include "lockstep/base/error.hpp"
#include "support/local.hpp"

namespace lockstep::backends {
namespace {

constexpr int stopped = 1;
constexpr std::chrono::milliseconds search_deadline{400};

/// All ranks run in one thread; the stopped one is not polled.
class StoppedRank : public testing::TestWithParam<std::pair<const char*, ClusterShape>> {
 protected:
  StoppedRank() {
    const ClusterShape& shape = GetParam().second;
    const auto group = make_local_group(shape);
    const bool is_one_node = shape.nodes() == 1;
    const collectives::Algorithm algorithm =
        is_one_node ? collectives::Algorithm::ring : collectives::Algorithm::hierarchical_ring;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      progress_.push_back(std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0}));
      communicators_.push_back(
          make_local(group, {rank}, *progress_.back(),
                     {.selection = collectives::forced({.algorithm = algorithm}), .deadline = search_deadline}));
    }
    data_.resize(static_cast<std::size_t>(shape.ranks()) * 64);
  }
  ~StoppedRank() override {
    keep(std::move(works_));
    keep(std::move(communicators_));
    keep(std::move(progress_));
    keep(std::move(data_));
  }
  void submit(int rank) {
    const Buffer buffer{data_.data() + 64L * rank, {64}, DType::float32};
    works_.emplace_back(rank,
                        communicators_[static_cast<std::size_t>(rank)]->all_reduce(buffer, buffer, ReduceOp::sum));
  }
  void poll_for(std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end)
      for (std::size_t rank = 0; rank < progress_.size(); ++rank)
        if (rank != stopped) progress_[rank]->poll();
  }

  std::vector<std::unique_ptr<Progress>> progress_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<float> data_;
  std::vector<std::pair<int, Work>> works_;
};

/// The ranks that come first give up first, but another rank waits for the one at fault.
TEST_P(StoppedRank, IsTheOnlyOneNamedByWhoGivesUpFirst) {
  const int ranks = static_cast<int>(communicators_.size());
  for (int rank = ranks - 1; rank >= 0; --rank) {
    if (rank != stopped && rank != stopped + 1) submit(rank);
  }
  poll_for(search_deadline / 2);
  submit(stopped + 1);
  poll_for(search_deadline * 2);
  int first_hand = 0;
  for (auto& [rank, work] : works_) {
    try {
      work.wait();
      ADD_FAILURE() << "rank " << rank << " is done without the one that has stopped";
    } catch (const Error& error) {
      if (error.is_consequence()) continue;
      ++first_hand;
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_EQ(error.context().peers, std::vector{stopped}) << error.what();
      EXPECT_NE(error.message().find("rank 1 does not answer"), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(first_hand, 1);
}

/// A rank that polls but has not submitted is distinguished from a rank that has stopped.
TEST_P(StoppedRank, IsToldFromOneThatHasNotSubmitted) {
  for (int rank = 0; rank < static_cast<int>(communicators_.size()); ++rank)
    if (rank != stopped) submit(rank);
  const auto end = Clock::now() + 2 * search_deadline;
  while (Clock::now() < end)
    for (const auto& progress : progress_) progress->poll();
  for (auto& [rank, work] : works_) {
    try {
      work.wait();
      ADD_FAILURE() << "rank " << rank;
    } catch (const Error& error) {
      if (error.is_consequence()) continue;
      EXPECT_EQ(error.context().peers, std::vector{stopped}) << error.what();
      EXPECT_NE(error.message().find("rank 1 answers, but has not submitted this operation"), std::string::npos)
          << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, StoppedRank,
                         testing::Values(std::pair("OfOneNode", ClusterShape{{0, 0, 0, 0, 0}}),
                                         std::pair("OfSeveralNodes", ClusterShape{{0, 1, 2, 3, 4}}),
                                         std::pair("OfNodesOfTwo", ClusterShape{{0, 0, 1, 1, 2, 2}})),
                         [](const auto& test) { return std::string(test.param.first); });

}  // namespace
}  // namespace lockstep::backends
