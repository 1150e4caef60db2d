// SPDX-License-Identifier: Apache-2.0
// No order of submission over several communicators, and none of waiting, can deadlock: threads as ranks.
#include "backends/stress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/backends/local.hpp"
#include "lockstep/comm/progress_thread.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr int operations = 10'000;
constexpr Algorithm algorithms[] = {
    Algorithm::ring,       Algorithm::double_tree,  Algorithm::halving_doubling, Algorithm::recursive_doubling,
    Algorithm::tree_order, Algorithm::shared_memory};

struct Group {
  stress::Members members;
  std::shared_ptr<LocalGroup> local;
};

/// This rank's communicator on each group; null where it is not in it.
std::vector<std::unique_ptr<Communicator>> join(const std::vector<Group>& groups, int rank, Progress& progress) {
  std::vector<std::unique_ptr<Communicator>> joined;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const stress::Members& members = groups[g].members;
    const auto place = std::find(members.begin(), members.end(), rank);
    if (place == members.end()) {
      joined.push_back(nullptr);
      continue;
    }
    joined.push_back(make_local(groups[g].local, {static_cast<int>(place - members.begin())}, progress,
                                {.algorithm = algorithms[g % std::size(algorithms)],
                                 .segment = {2048},
                                 .operations_in_flight = 1 + static_cast<int>(g % 4),
                                 .deadline = std::chrono::seconds(60)}));
  }
  return joined;
}

enum class Helper { none, progress_thread };

class Stress : public testing::TestWithParam<std::tuple<int, Helper>> {};

TEST_P(Stress, RandomMixesEndAndAreRight) {
  const auto [ranks, helper] = GetParam();
  std::vector<Group> groups;
  const auto all_members = stress::overlapping_groups(ranks);
  for (const stress::Members& members : all_members)
    groups.push_back({members, make_local_group(static_cast<int>(members.size()))});
  const auto requests = stress::draw(static_cast<unsigned>(ranks), operations, all_members);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, help = helper] {
      Progress progress({.spins_before_yield = 0, .yields_before_sleep = rank});
      std::optional<ProgressThread> thread;
      // Before the communicators: these may come and go while it runs.
      if (help == Helper::progress_thread) thread.emplace(progress, ProgressThreadOptions{.spins_before_nap = 10});
      const auto joined = join(groups, rank, progress);
      std::vector<Communicator*> communicators;
      for (const auto& c : joined) communicators.push_back(c.get());
      stress::OneRank(rank, communicators, progress).run(requests);
      for (const auto& c : joined)
        if (c) c->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    , Stress, testing::Combine(testing::Values(3, 4), testing::Values(Helper::none, Helper::progress_thread)),
    [](const auto& parameter) {
      const bool alone = std::get<1>(parameter.param) == Helper::none;
      return std::to_string(std::get<0>(parameter.param)) + "_ranks" + (alone ? "" : "_with_a_progress_thread_each");
    });

}  // namespace
}  // namespace lockstep::backends
