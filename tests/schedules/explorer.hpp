// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "apps/comm-check/scenario.hpp"
#include "schedules/left_behind.hpp"

namespace lockstep::schedules {

struct Outcome {
  std::optional<std::string> failure;  ///< nothing: every element of every result was correct
  std::uint64_t trace = 0;             ///< equal for equal runs
  std::uint64_t most_ahead = 0;        ///< see Cluster::most_ahead
};

/// Runs all ranks of a scenario in this thread. @param seed  decides which rank continues when
Outcome run(const comm_check::Scenario& scenario, std::uint64_t seed);

/// Removes everything from a scenario that is not needed for its failure.
/// @param fails  returns whether a scenario still fails
comm_check::Scenario shrunk(comm_check::Scenario scenario,
                            const std::function<bool(const comm_check::Scenario&)>& fails);

/// Runs `count` scenarios, with one schedule each. @return the description of the first failure, in its shortest form
std::optional<std::string> explore(std::uint64_t first_seed, std::uint64_t count, const comm_check::Limits& limits);

/// During the scope, slots are opened without regard to ranks that still use them.
class WithoutSlotRule {
 public:
  WithoutSlotRule();
  WithoutSlotRule(const WithoutSlotRule&) = delete;
  WithoutSlotRule& operator=(const WithoutSlotRule&) = delete;
  ~WithoutSlotRule();

 private:
  [[maybe_unused]] LeftBehind left_behind_;  // for the runs that fail
};

}  // namespace lockstep::schedules
