// SPDX-License-Identifier: Apache-2.0
// No order of submission over several communicators, and none of waiting, can deadlock: over MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "backends/stress.hpp"
#include "lockstep/backends/membership.hpp"
#include "lockstep/backends/mpi_native.hpp"
#include "lockstep/backends/mpi_plan.hpp"
#include "lockstep/comm/progress_thread.hpp"
#include "lockstep/platform/world.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr int operations = 10'000;
constexpr auto deadline = std::chrono::seconds(60);
constexpr Algorithm algorithms[] = {Algorithm::ring, Algorithm::double_tree, Algorithm::halving_doubling,
                                    Algorithm::recursive_doubling, Algorithm::tree_order};

/// Every third group by the MPI library's own collectives.
std::unique_ptr<Communicator> make(const MpiGroup& group, std::size_t g, Progress& progress) {
  if (g % 3 == 2) return make_mpi_native(group, progress, {.deadline = deadline});
  return make_mpi_plan(group, progress,
                       {.algorithm = algorithms[g % std::size(algorithms)],
                        .segment = {2048},
                        .operations_in_flight = 1 + static_cast<int>(g % 4),
                        .deadline = deadline});
}

/// This rank's communicator on each group; null where it is not in it. Collective over the world.
std::vector<std::unique_ptr<Communicator>> join(const std::vector<stress::Members>& groups, const World& world,
                                                Progress& progress) {
  std::vector<std::unique_ptr<Communicator>> joined;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto place = std::find(groups[g].begin(), groups[g].end(), world.rank().value);
    const bool member = place != groups[g].end();
    auto group =
        world.group().split(member ? std::optional<int>(0) : std::nullopt, static_cast<int>(place - groups[g].begin()));
    joined.push_back(group ? make(*group, g, progress) : nullptr);
    if (group) group->close();
  }
  return joined;
}

void run(bool with_progress_thread) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto groups = stress::overlapping_groups(world.size());
  const auto joined = join(groups, world, progress);
  std::optional<ProgressThread> thread;
  if (with_progress_thread) {
    ASSERT_GE(provided_thread_level(), ThreadLevel::serialized);
    thread.emplace(progress, ProgressThreadOptions{.spins_before_nap = 10});
  }
  std::vector<Communicator*> communicators;
  for (const auto& c : joined) communicators.push_back(c.get());
  stress::OneRank(world.rank().value, communicators, progress)
      .run(stress::draw(static_cast<unsigned>(world.size()), operations, groups));
  thread.reset();
  for (const auto& c : joined)
    if (c) c->close();
  world.close();
}

TEST(MpiStress, RandomMixesEndAndAreRight) { run(false); }

TEST(MpiStress, RandomMixesEndAndAreRightWithAProgressThread) { run(true); }

/// What the tests above put together by hand, as a user gets it.
TEST(MembershipWithAProgressThread, Works) {
  World world;
  Membership membership(world.group(), {.wait = {.spins_before_yield = 0}, .progress_thread = true});
  std::vector<float> values(100'000, 1.0F);
  const Buffer buffer{values.data(), {100'000}, DType::float32};
  Work work = membership.gradients().all_reduce(buffer, buffer, ReduceOp::sum);
  membership.statistics().barrier().wait();
  work.wait();
  EXPECT_EQ(values[99'999], static_cast<float>(membership.size()));
  membership.close();
  world.close();
}

/// The point of it: nobody polls, and yet the operation ends.
TEST(MembershipWithAProgressThread, EndsOperationsThatNobodyWaitsFor) {
  World world;
  Membership membership(world.group(), {.wait = {.spins_before_yield = 0}, .progress_thread = true});
  std::vector<float> values(300'000, 1.0F);
  const Buffer buffer{values.data(), {300'000}, DType::float32};
  Work work = membership.gradients().all_reduce(buffer, buffer, ReduceOp::sum);
  const auto begin = std::chrono::steady_clock::now();
  while (!work.test() && std::chrono::steady_clock::now() - begin < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(work.test());
  EXPECT_EQ(values[0], static_cast<float>(membership.size()));
  work.wait();
  membership.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
