// SPDX-License-Identifier: Apache-2.0
#include "support/local.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "backends/contract/contract.hpp"
#include "backends/make_agreed.hpp"
#include "comm/progress_thread.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/thread_ranks.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

enum class Helper { none, progress_thread };

ClusterShape one_node(int ranks) { return {std::vector<int>(static_cast<std::size_t>(ranks))}; }

/// Runs `body` on one thread per rank, each with its own communicator. The threads take themselves for ranks of these
/// nodes.
void run_ranks(const ClusterShape& shape, const PlanOptions& options, const std::function<void(Communicator&)>& body,
               Helper helper = Helper::none) {
  std::vector<RankSet> sets = from_threads(shape.ranks());
  on_each_thread(shape.ranks(), [&](int rank) {
    RankSet& set = sets[static_cast<std::size_t>(rank)];
    set.link().members = std::make_shared<RankSet::Members>(RankSet::Members{set.hosts(), shape});
    set = set.dup();
    Progress progress({.spins_before_yield = 0});
    std::optional<ProgressThread> thread;
    if (helper == Helper::progress_thread) thread.emplace(progress);
    const auto communicator = plan_on(set, progress, options);
    body(*communicator);
    communicator->close();
    set.close();
  });
}

class LocalContract : public testing::TestWithParam<std::tuple<Algorithm, int>> {};

TEST_P(LocalContract, Holds) {
  const auto [algorithm, ranks] = GetParam();
  // Segments are short, so that small buffers are split, too.
  run_ranks(one_node(ranks),
            {.selection = collectives::forced({.algorithm = algorithm, .segment = {256}, .blocks_in_flight = 3}),
             .node = {.staging = {1024}, .pull_limit = {512}, .cache = {1500}},
             .message_limit = {1000}},
            [](Communicator& c) { contract::check_all(c); });
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, LocalContract,
                         testing::Combine(testing::ValuesIn(testing_support::algorithms_of_one_node()),
                                          testing::Values(1, 2, 3, 4, 5, 8)));

class ByCacheOnANode : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ByCacheOnANode, Holds) {
  const auto [ranks, ranks_per_cache] = GetParam();
  PlanOptions options{.selection = collectives::forced({.algorithm = Algorithm::tree_order, .segment = {256}}),
                      .node = {.staging = {1024}, .pull_limit = {512}, .cache = {1500}}};
  options.selection.ranks_per_cache = ranks_per_cache;
  run_ranks(one_node(ranks), options, [](Communicator& c) { contract::check_all(c); });
}

INSTANTIATE_TEST_SUITE_P(OfManyRanks, ByCacheOnANode,
                         testing::Values(std::tuple(4, 2), std::tuple(5, 2), std::tuple(16, 4)));

TEST(ByCacheContract, HoldsOnSeveralNodes) {
  PlanOptions options{.selection = collectives::forced({.algorithm = Algorithm::hierarchical_ring, .segment = {256}}),
                      .node = {.staging = {1024}}};
  options.selection.ranks_per_cache = 2;
  run_ranks(ClusterShape{{0, 0, 0, 0, 1, 1, 1, 1}}, options, [](Communicator& c) { contract::check_all(c); });
}

class HierarchicalContract : public testing::TestWithParam<std::tuple<Algorithm, ClusterShape>> {};

TEST_P(HierarchicalContract, Holds) {
  const auto [algorithm, shape] = GetParam();
  run_ranks(shape,
            {.selection = collectives::forced({.algorithm = algorithm, .segment = {256}, .blocks_in_flight = 3}),
             .node = {.staging = {2048}}},
            [](Communicator& c) { contract::check_all(c); });
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, HierarchicalContract,
                         testing::Combine(testing::ValuesIn(testing_support::hierarchical_algorithms()),
                                          testing::Values(ClusterShape{{0, 0, 0}}, ClusterShape{{0, 0, 1, 1}},
                                                          ClusterShape{{0, 0, 0, 1, 1}},
                                                          ClusterShape{{0, 1, 0, 1, 2}})));

INSTANTIATE_TEST_SUITE_P(TreeOrder, HierarchicalContract,
                         testing::Combine(testing::Values(Algorithm::hierarchical_tree_order),
                                          testing::Values(ClusterShape{{0, 0, 1, 1, 2}},
                                                          ClusterShape{{0, 0, 0, 0, 1, 1, 1}})));

TEST(Local, TheContractHoldsWithAProgressThread) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(
        one_node(ranks), {.selection = collectives::forced({.segment = {256}, .blocks_in_flight = 3})},
        [](Communicator& c) { contract::check_all(c); }, Helper::progress_thread);
  }
}

/// Returns the CPU time of a thread so far.
std::chrono::nanoseconds time_on_a_processor() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(LocalWait, SleepsUntilTheOthersOfItsNodeHaveCome) {
  constexpr std::chrono::milliseconds late{300};
  run_ranks(one_node(2), {.selection = collectives::forced({.algorithm = Algorithm::shared_memory})},
            [&](Communicator& c) {
              c.barrier().wait();
              if (c.rank() == Rank{1}) std::this_thread::sleep_for(late);
              const auto begin = time_on_a_processor();
              c.barrier().wait();
              EXPECT_LT(time_on_a_processor() - begin, late / 2);
            });
}

TEST(LocalSelection, HoldsWhereTheAlgorithmChangesWithTheSize) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    collectives::Selection selection{.shape = {1, ranks, ranks, ranks}, .untuned = {.segment = {256}}};
    const auto add = [&](std::int64_t from, std::int64_t below, Algorithm algorithm, int blocks_in_flight) {
      selection.table.add(
          {CollectiveKind::all_reduce, selection.shape, {from}, {below}, {algorithm, {128}, blocks_in_flight}});
    };
    add(0, 16, Algorithm::recursive_doubling, 1);
    add(16, 3000, Algorithm::double_tree, 7);
    add(3000, 4000, Algorithm::halving_doubling, 2);  // larger sizes use the cost model
    run_ranks(one_node(ranks), {.selection = selection}, [](Communicator& c) { contract::check_all(c); });
  }
}

TEST(RanksOfThreads, ExchangeAndSplit) {
  constexpr int ranks = 5;
  std::vector<RankSet> sets = from_threads(ranks);
  on_each_thread(ranks, [&](int rank) {
    RankSet& set = sets[static_cast<std::size_t>(rank)];
    EXPECT_EQ(set.rank().value, rank);
    EXPECT_EQ(set.shape().nodes(), 1);
    EXPECT_EQ(all_gather_numbers(set, rank * rank), (std::vector<std::int64_t>{0, 1, 4, 9, 16}));
    std::optional<RankSet> part = set.split(rank == 2 ? std::nullopt : std::optional(rank % 2), -rank);
    EXPECT_EQ(part.has_value(), rank != 2);
    const std::vector<std::int64_t> expected =
        rank % 2 == 0 ? std::vector<std::int64_t>{4, 0} : std::vector<std::int64_t>{3, 1};
    if (part) {
      EXPECT_EQ(all_gather_numbers(*part, rank), expected);
    }
    barrier(set);
  });
}

TEST(RanksOfThreads, NameAThreadThatDoesNotCome) {
  std::vector<RankSet> sets = from_threads(3, std::chrono::milliseconds(300));
  on_each_thread(2, [&](int rank) {
    try {
      (void)all_gather_numbers(sets[static_cast<std::size_t>(rank)], 1);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_EQ(error.context().peers, std::vector<int>{2}) << error.what();
    }
  });
  for (const auto& [ranks, deadline] : {std::pair(0, 1), std::pair(1, 0)}) {
    try {
      (void)from_threads(ranks, std::chrono::seconds(deadline));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    }
  }
}

TEST(RanksOfThreads, AreNotWatched) {
  const std::vector<RankSet> sets = from_threads(2);
  try {
    sets[0].watch({});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
  }
  EXPECT_EQ(sets[0].explain_ranks(), "");
}

TEST(Local, RefusesARankOutsideTheGroup) {
  Progress progress;
  EXPECT_THROW((void)make_local(make_local_group(2), {2}, progress), Error);
  EXPECT_THROW((void)make_local_group(0), Error);
}

TEST(Local, RefusesOptionsBelowOne) {
  Progress progress;
  const auto group = make_local_group(1);
  EXPECT_THROW((void)make_local(group, {0}, progress, {.selection = collectives::forced({.segment = {0}})}), Error);
  EXPECT_THROW((void)make_local(group, {0}, progress, {.selection = collectives::forced({.blocks_in_flight = 0})}),
               Error);
  EXPECT_THROW((void)make_local(group, {0}, progress, {.operations_in_flight = 0}), Error);
  EXPECT_THROW(
      (void)make_local(group, {0}, progress, {.selection = collectives::Selection{.untuned = {.segment = {0}}}}),
      Error);
}

TEST(Local, RefusesAStagingAreaWithoutRoomForAnElementOfEachRank) {
  Progress progress;
  const auto group = make_local_group(3);
  PlanOptions options{.selection = collectives::forced({.algorithm = Algorithm::shared_memory}),
                      .node = {.staging = {3 * 16 - 1}}};
  EXPECT_THROW((void)make_local(group, {0}, progress, options), Error);
  options.node.staging = {3 * 16};
  make_local(group, {0}, progress, options)->close();
}

TEST(Local, CountsThatDifferAreNamedAsAMismatch) {
  std::vector<ErrorCode> codes(2);
  const auto group = make_local_group(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress;
      const auto communicator = make_local(
          group, {rank}, progress, {.selection = collectives::forced({}), .deadline = std::chrono::seconds(60)});
      std::vector<float> data(static_cast<std::size_t>(10 + rank));
      const Buffer buffer{data.data(), {10 + rank}, DType::float32};
      try {
        communicator->broadcast(buffer, {0}).wait();
      } catch (const Error& error) {
        codes[static_cast<std::size_t>(rank)] = error.code();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(codes[1], ErrorCode::mismatch);
  EXPECT_EQ(codes[0], ErrorCode::mismatch);
}

/// The receiver detects it and notifies the sender.
TEST(Local, AMessageThatIsNotWhatIsReceivedIsNamedOnBothSides) {
  enum class Difference { count, dtype, label };
  for (const Difference difference : {Difference::count, Difference::dtype, Difference::label}) {
    std::vector<std::optional<Error>> errors(2);
    std::vector<std::vector<float>> data(2, std::vector<float>(12, 5.0F));
    const auto group = make_local_group(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Progress progress;
        const auto c = make_local(group, {rank}, progress, {.deadline = std::chrono::seconds(60)});
        Buffer buffer{data[static_cast<std::size_t>(rank)].data(), {12}, DType::float32};
        if (rank == 1 && difference == Difference::count) buffer.count = {10};
        if (rank == 1 && difference == Difference::dtype) buffer.dtype = DType::int32;
        const std::string label = rank == 1 && difference == Difference::label ? "biases" : "weights";
        try {
          rank == 0 ? c->send(buffer, {1}, Queue::host(), label).wait()
                    : c->recv(buffer, {0}, Queue::host(), label).wait();
          c->barrier().wait();
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < 2; ++rank) {
      const auto& error = errors[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(error) << "nothing was thrown on rank " << rank;
      EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
      EXPECT_EQ(error->context().peers, std::vector{1 - rank}) << error->what();
      EXPECT_TRUE(rank == 0 || error->context().operation == "recv") << error->what();
      if (rank == 1 && difference == Difference::count) {
        EXPECT_NE(error->message().find("rank 0 calls send/recv of 12 float32 where this rank calls send/recv of 10"),
                  std::string::npos)
            << error->what();
      }
    }
    EXPECT_EQ(data[1], std::vector<float>(12, 5.0F)) << "what was received in part";
  }
}

TEST(Hierarchical, WhoCallsSomethingElseOnAnotherNodeIsNamedByAll) {
  const ClusterShape shape{{0, 0, 1, 1}};
  const auto group = make_local_group(shape);
  std::vector<std::string> outcomes(4);
  // It outlives the threads, because a rank that gives up does not know whether others of its node still read its
  // memory.
  std::vector<std::vector<float>> data(4, std::vector<float>(10'000));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      const auto c = make_local(group, {rank}, progress,
                                {.selection = collectives::forced({.algorithm = Algorithm::hierarchical_ring}),
                                 .deadline = std::chrono::seconds(60)});
      const Buffer buffer{data[static_cast<std::size_t>(rank)].data(), {10'000}, DType::float32};
      try {
        c->all_reduce(buffer, buffer, rank < 2 ? ReduceOp::sum : ReduceOp::max).wait();
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = name(error.code());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outcomes, std::vector<std::string>(4, "mismatch"));
}

TEST(Local, AFailedCommunicatorRefusesFurtherWork) {
  const auto group = make_local_group(2);
  Progress progress;
  const auto communicator = make_local(
      group, {0}, progress, {.selection = collectives::forced({}), .deadline = std::chrono::milliseconds(50)});
  EXPECT_THROW(communicator->barrier().wait(), Error);
  EXPECT_THROW((void)communicator->barrier(), Error);
}

}  // namespace
}  // namespace lockstep::backends
