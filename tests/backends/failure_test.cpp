// SPDX-License-Identifier: Apache-2.0
// Tests a rank that fails, aborts, leaves or closes too early. All others fail within 100 ms, whatever they have
// pending, and report which rank it was, on which host, and why. All ranks are on one thread with a simulated clock;
// the deadline is 300 s.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/one_thread.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr int odd = 3;  // the rank that fails
constexpr std::chrono::milliseconds soon{100};

/// Four ranks, each with a buffer that outlives their communicators.
struct Cluster {
  Cluster(const ClusterShape& shape, Algorithm algorithm)
      : ranks(shape, {.selection = collectives::forced({.algorithm = algorithm})}) {}

  Work submit(int rank) {
    const Buffer buffer{data[static_cast<std::size_t>(rank)].data(), {1000}, DType::float32};
    return ranks[rank].all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
  }
  std::optional<Error> error_of(Work& work) {
    try {
      work.wait();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  /// Returns the error of a rank that has nothing pending and then submits.
  std::optional<Error> error_of_next(int rank) {
    try {
      Work work = submit(rank);
      return error_of(work);
    } catch (const Error& error) {
      return error;
    }
  }

  std::vector<std::vector<float>> data{4, std::vector<float>(1000, 1.0F)};
  OneThread ranks;
};

struct Cause {
  std::string name;
  std::string reason;
  void (*happen)(Cluster&);
};

const std::array causes = {
    Cause{"Abort", "the loss is not a number",
          [](Cluster& cluster) { cluster.ranks[odd].abort("the loss is not a number"); }},
    Cause{"Destruction", "destroyed before close()",
          [](Cluster& cluster) { cluster.ranks.communicators[odd].reset(); }},
    Cause{"AnExceptionOfTheProgram", "an exception went through the program",
          [](Cluster& cluster) {
            try {
              const auto communicator = std::move(cluster.ranks.communicators[odd]);
              throw std::runtime_error("of the program");
            } catch (const std::runtime_error&) {
            }
          }},
};

using Shape = std::tuple<ClusterShape, Algorithm>;
class Failure : public testing::TestWithParam<std::tuple<Cause, Shape>> {};

void expect_told(const std::optional<Error>& error, int rank, const std::string& reason) {
  ASSERT_TRUE(error) << "rank " << rank << " did not hear of it";
  EXPECT_TRUE(error->is_consequence()) << error->what();
  EXPECT_EQ(error->context().rank, rank);
  EXPECT_NE(error->message().find("rank 3 on this process has given up"), std::string::npos) << error->what();
  EXPECT_NE(error->message().find(reason), std::string::npos) << error->what();
}

TEST_P(Failure, ReachesWhoHasSomethingPendingAndWhoHasNot) {
  const auto& [cause, where] = GetParam();
  Cluster cluster(std::get<0>(where), std::get<1>(where));
  std::vector<Work> pending;
  pending.push_back(cluster.submit(0));
  pending.push_back(cluster.submit(1));
  cluster.ranks.yield();
  const auto begin = cluster.ranks.now();
  cause.happen(cluster);
  for (int rank = 0; rank < 2; ++rank) {
    const auto error = cluster.error_of(pending[static_cast<std::size_t>(rank)]);
    expect_told(error, rank, cause.reason);
    EXPECT_EQ(error->context().label, "layer3.weight");
  }
  expect_told(cluster.error_of_next(2), 2, cause.reason);
  EXPECT_LE(cluster.ranks.now() - begin, soon);
}

INSTANTIATE_TEST_SUITE_P(, Failure,
                         testing::Combine(testing::ValuesIn(causes),
                                          testing::Values(Shape{{{0, 0, 0, 0}}, Algorithm::shared_memory},
                                                          Shape{{{0, 0, 1, 1}}, Algorithm::hierarchical_ring},
                                                          Shape{{{0, 1, 2, 3}}, Algorithm::ring})),
                         [](const auto& parameter) {
                           const ClusterShape& shape = std::get<0>(std::get<1>(parameter.param));
                           return std::get<0>(parameter.param).name + "_" + std::to_string(shape.nodes()) + "nodes";
                         });

TEST(FailureOfARankThatNeverPollsAgain, IsPassedOnByItsNode) {
  for (const Cause& cause : causes) {
    Cluster cluster({{0, 0, 1, 1}}, Algorithm::hierarchical_ring);
    Work first = cluster.submit(0);
    cluster.ranks.polled[odd] = false;
    const auto begin = cluster.ranks.now();
    cause.happen(cluster);
    expect_told(cluster.error_of(first), 0, cause.reason);
    EXPECT_LE(cluster.ranks.now() - begin, soon);
  }
}

TEST(FailureOfARankAloneOnItsNodeThatNeverPollsAgain, IsToldByTheDestructor) {
  for (const Cause& cause : {causes[1], causes[2]}) {
    Cluster cluster({{0, 0, 1, 2}}, Algorithm::hierarchical_ring);
    Work first = cluster.submit(0);
    cluster.ranks.polled[odd] = false;
    const auto begin = cluster.ranks.now();
    cause.happen(cluster);
    expect_told(cluster.error_of(first), 0, cause.reason);
    expect_told(cluster.error_of_next(2), 2, cause.reason);
    EXPECT_LE(cluster.ranks.now() - begin, soon);
  }
}

TEST(AbortOfARankAloneOnItsNodeThatNeverPollsAgain, IsToldByTheThreadThatAborts) {
  for (const bool is_own_thread : {true, false}) {
    Cluster cluster({{0, 0, 1, 2}}, Algorithm::hierarchical_ring);
    std::vector<Work> done;
    for (int rank = 0; rank < 4; ++rank) done.push_back(cluster.submit(rank));
    for (Work& work : done) work.wait();
    Work first = cluster.submit(0);
    cluster.ranks.polled[odd] = false;
    const auto begin = cluster.ranks.now();
    if (is_own_thread) {
      causes[0].happen(cluster);
    } else {
      std::thread([&] { causes[0].happen(cluster); }).join();
    }
    expect_told(cluster.error_of(first), 0, causes[0].reason);
    EXPECT_LE(cluster.ranks.now() - begin, soon);
  }
}

TEST(FailureByDeadline, ReachesWhoHasNothingPending) {
  Cluster cluster({{0, 0, 1, 1}}, Algorithm::hierarchical_ring);
  Work work = cluster.submit(odd);
  cluster.ranks.step = std::chrono::seconds(1);
  const auto own = cluster.error_of(work);
  cluster.ranks.step = std::chrono::milliseconds(5);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->code(), ErrorCode::timeout);
  const auto begin = cluster.ranks.now();
  for (int rank = 0; rank < odd; ++rank) {
    const auto error = cluster.error_of_next(rank);
    expect_told(error, rank, "nothing has moved for");
    EXPECT_EQ(error->code(), ErrorCode::timeout);
  }
  EXPECT_LE(cluster.ranks.now() - begin, soon);
}

TEST(Abort, EndsOnesOwnOperationsToo) {
  Cluster cluster({{0, 0, 0, 0}}, Algorithm::shared_memory);
  Work work = cluster.submit(odd);
  cluster.ranks[odd].abort("the loss is not a number");
  const auto error = cluster.error_of(work);
  ASSERT_TRUE(error);
  EXPECT_FALSE(error->is_consequence());
  EXPECT_EQ(error->message(), "the loss is not a number");
  EXPECT_TRUE(cluster.error_of_next(odd));
}

class EarlyClose : public testing::TestWithParam<Shape> {};

void expect_named(const std::optional<Error>& error) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  EXPECT_EQ(error->context().peers.front(), odd) << error->what();
  EXPECT_NE(error->message().find("rank 3 closed the communicator after 1 operations"), std::string::npos)
      << error->what();
}

TEST_P(EarlyClose, IsNamedByWhoHasSomethingPendingAndWhoGoesOn) {
  Cluster cluster(std::get<0>(GetParam()), std::get<1>(GetParam()));
  std::vector<Work> done;
  for (int rank = 0; rank < 4; ++rank) done.push_back(cluster.submit(rank));
  for (Work& work : done) work.wait();
  Work pending = cluster.submit(0);
  const auto begin = cluster.ranks.now();
  cluster.ranks[odd].close();
  expect_named(cluster.error_of(pending));
  const auto later = cluster.error_of_next(1);
  ASSERT_TRUE(later);
  EXPECT_NE(later->message().find("rank 3 closed the communicator after 1 operations"), std::string::npos);
  EXPECT_LE(cluster.ranks.now() - begin, soon);
}

INSTANTIATE_TEST_SUITE_P(, EarlyClose,
                         testing::Values(Shape{{{0, 0, 0, 0}}, Algorithm::shared_memory},
                                         Shape{{{0, 0, 1, 1}}, Algorithm::hierarchical_ring},
                                         Shape{{{0, 1, 2, 3}}, Algorithm::ring}),
                         [](const auto& parameter) {
                           return std::to_string(std::get<0>(parameter.param).nodes()) + "nodes";
                         });

TEST(Options, ThatDifferBetweenThreadsAreNamedOnAllOfThem) {
  for (const ClusterShape& shape : {ClusterShape{{0, 0}}, ClusterShape{{0, 1}}}) {
    const auto group = make_local_group(shape);
    Progress first;
    Progress second;
    const auto communicator = make_local(group, {0}, first, {.node = {.pull_limit = {64}}});
    constexpr std::string_view text = "rank 1 has pull limit (bytes) 4096, rank 0 has 64";
    try {
      (void)make_local(group, {1}, second);
      FAIL() << "it was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.message(), text);
    }
    try {
      communicator->barrier().wait();
      FAIL() << "the barrier is complete without a rank";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(text), std::string::npos) << error.what();
    }
  }
}

TEST(AnotherThread, IsRefusedAndPoisonsNothing) {
  Cluster cluster({{0, 0, 0, 0}}, Algorithm::shared_memory);
  std::vector<Work> works;
  for (int rank = 0; rank < 4; ++rank) works.push_back(cluster.submit(rank));
  std::optional<Error> error;
  std::thread([&] { error = cluster.error_of_next(odd); }).join();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_NE(error->message().find("on another thread"), std::string::npos) << error->what();
  EXPECT_EQ(error->context().rank, odd);
  for (Work& work : works) EXPECT_FALSE(cluster.error_of(work));
  for (auto& communicator : cluster.ranks.communicators) communicator->close();
}

TEST(Arguments, ThatAreRefusedPoisonNothing) {
  Cluster cluster({{0, 0, 1, 1}}, Algorithm::hierarchical_ring);
  EXPECT_THROW((void)cluster.ranks[odd].broadcast({nullptr, {5}, DType::float32}, {0}), Error);
  std::vector<Work> works;
  for (int rank = 0; rank < 4; ++rank) works.push_back(cluster.submit(rank));
  for (Work& work : works) EXPECT_FALSE(cluster.error_of(work));
  for (auto& communicator : cluster.ranks.communicators) communicator->close();
}

}  // namespace
}  // namespace lockstep::backends
