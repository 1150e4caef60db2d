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
  std::optional<std::string> failure;  ///< nothing: every element of every result was right
  std::uint64_t trace = 0;             ///< equal for equal runs
  std::uint64_t most_ahead = 0;        ///< as Cluster::most_ahead
};

/// Runs all ranks of a scenario in this thread. @param seed  decides who goes on when
Outcome run(const check::Scenario& scenario, std::uint64_t seed);

/// Leaves out of a scenario what it fails without, as far as that goes.
/// @param fails  whether a scenario still does
check::Scenario shrunk(check::Scenario scenario, const std::function<bool(const check::Scenario&)>& fails);

/// Tries `count` scenarios, a schedule each. @return the first failure, in words, shrunk to its shortest form
std::optional<std::string> explore(std::uint64_t first_seed, std::uint64_t count, const check::Limits& limits);

/// For as long as it lives, slots are opened without regard to who still uses them.
class WithoutSlotRule {
 public:
  WithoutSlotRule();
  WithoutSlotRule(const WithoutSlotRule&) = delete;
  WithoutSlotRule& operator=(const WithoutSlotRule&) = delete;
  ~WithoutSlotRule();

 private:
  [[maybe_unused]] LeftBehind left_behind_;  // by the runs that go wrong
};

}  // namespace lockstep::schedules
