// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/comm-check/member.hpp"
#include "comm/progress_thread.hpp"
#include "support/algorithms.hpp"
#include "support/local.hpp"

/// Runs the scenarios of comm-check with a thread for each rank, for the thread sanitizer and for the machine's own
/// schedules.
namespace lockstep::backends {
namespace {

using collectives::Algorithm;

enum class Helper { none, progress_thread };

/// The communicators of a scenario. The first rank to come makes the data that a group shares.
class Groups {
 public:
  explicit Groups(const comm_check::Scenario& scenario) : scenario_(scenario) {}

  std::unique_ptr<Communicator> make(std::size_t group, int rank, Progress& progress) {
    const comm_check::Members& members = scenario_.groups[group].members;
    const auto place = std::find(members.begin(), members.end(), rank) - members.begin();
    return make_local(local(group, static_cast<int>(members.size())), {static_cast<int>(place)}, progress,
                      options(scenario_.groups[group].setting));
  }

 private:
  std::shared_ptr<LocalGroup> local(std::size_t group, int size) {
    const std::scoped_lock lock(mutex_);
    auto& made = made_[group];
    if (!made) made = make_local_group(size);
    return made;
  }
  static PlanOptions options(std::uint64_t setting) {
    std::vector<Algorithm> algorithms = testing_support::algorithms_of_one_node();
    algorithms.push_back(Algorithm::shared_memory);
    return {.selection = collectives::forced({.algorithm = algorithms[setting % algorithms.size()], .segment = {512}}),
            .operations_in_flight = 1 + static_cast<int>(setting / 8 % 4),
            .node = {.staging = {1024}, .pull_limit = {256}},
            .deadline = std::chrono::seconds(60)};
  }

  const comm_check::Scenario& scenario_;
  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<LocalGroup>> made_;
};

/// @return the failure of some rank, or an empty text
std::string run(const comm_check::Scenario& scenario, Helper helper) {
  Groups groups(scenario);
  std::vector<std::string> failures(static_cast<std::size_t>(scenario.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0, .yields_before_sleep = rank});
      std::optional<ProgressThread> thread;
      if (helper == Helper::progress_thread) thread.emplace(progress, ProgressThreadOptions{.spins_before_nap = 10});
      comm_check::Member member(
          scenario, rank, progress, comm_check::Member::Together::members,
          [&](std::size_t group) { return groups.make(group, rank, progress); },
          [](unsigned drawn) {
            if (drawn % 4 == 0) std::this_thread::yield();
          });
      try {
        member.run();
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& failure : failures) all += failure;
  return all;
}

class Threads : public testing::TestWithParam<Helper> {};

TEST_P(Threads, LeaveEveryElementOfEveryResultRight) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const comm_check::Scenario scenario =
        comm_check::draw_scenario(seed, {.min_ranks = 2, .max_ranks = 4, .max_bytes = 16 * 1024});
    const std::string failure = run(scenario, GetParam());
    ASSERT_EQ(failure, "") << describe(scenario);
  }
}

INSTANTIATE_TEST_SUITE_P(, Threads, testing::Values(Helper::none, Helper::progress_thread), [](const auto& parameter) {
  return parameter.param == Helper::none ? "Alone" : "WithAProgressThreadEach";
});

}  // namespace
}  // namespace lockstep::backends
