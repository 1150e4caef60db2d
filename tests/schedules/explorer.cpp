// SPDX-License-Identifier: Apache-2.0
#include "schedules/explorer.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <vector>

#include "backends/plan/seams.hpp"
#include "schedules/ranks.hpp"

namespace lockstep::schedules {
namespace {

/// Returns scenarios without a round, a request, or an unused communicator, or with smaller numbers.
std::vector<comm_check::Scenario> smaller(const comm_check::Scenario& scenario) {
  std::vector<comm_check::Scenario> all;
  const auto add = [&](const auto& change) {
    all.push_back(scenario);
    if (!change(all.back())) all.pop_back();
  };
  for (std::size_t round = 0; round < scenario.rounds.size(); ++round)
    add([&](comm_check::Scenario& s) { return !s.rounds[round].empty() && (s.rounds[round].clear(), true); });
  for (std::size_t round = 0; round < scenario.rounds.size(); ++round)
    for (std::size_t k = 0; k < scenario.rounds[round].size(); ++k) {
      add([&](comm_check::Scenario& s) {
        s.rounds[round].erase(s.rounds[round].begin() + static_cast<std::ptrdiff_t>(k));
        return true;
      });
      add([&](comm_check::Scenario& s) { return (s.rounds[round][k].count /= 2) > 0; });
      add([&](comm_check::Scenario& s) { return std::exchange(s.rounds[round][k].count, 1) > 1; });
    }
  add([](comm_check::Scenario& s) { return std::exchange(s.in_flight, 1) > 1; });
  return all;
}

}  // namespace

WithoutSlotRule::WithoutSlotRule() { backends::seams::keeps_slot_rule = false; }
WithoutSlotRule::~WithoutSlotRule() { backends::seams::keeps_slot_rule = true; }

Outcome run(const comm_check::Scenario& scenario, std::uint64_t seed) {
  // A yield is long enough that ranks with slow peers ask them what they call, or so short that they do not.
  constexpr std::chrono::microseconds times_of_a_yield[] = {std::chrono::microseconds(50),
                                                            std::chrono::milliseconds(25)};
  Scheduler scheduler(seed, {.yield = times_of_a_yield[seed % std::size(times_of_a_yield)]});
  auto ranks = std::make_unique<Ranks>(
      scenario, Cluster::Setting{}, scheduler, [&](int) -> const comm_check::Scenario& { return scenario; }, nullptr);
  for (const auto& member : ranks->members) scheduler.add([&member] { member->run(); });
  try {
    scheduler.run();
  } catch (const std::exception& error) {
    // Fibers that have not ended hold their resources, and never continue.
    (void)ranks.release();
    return {error.what(), scheduler.trace()};
  }
  return {std::nullopt, scheduler.trace(), ranks->cluster.most_ahead()};
}

comm_check::Scenario shrunk(comm_check::Scenario scenario,
                            const std::function<bool(const comm_check::Scenario&)>& fails) {
  for (bool changed = true; changed;) {
    changed = false;
    for (comm_check::Scenario& candidate : smaller(scenario)) {
      if (!fails(candidate)) continue;
      scenario = std::move(candidate);
      changed = true;
      break;
    }
  }
  return scenario;
}

std::optional<std::string> explore(std::uint64_t first_seed, std::uint64_t count, const comm_check::Limits& limits) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const comm_check::Scenario scenario = comm_check::draw_scenario(seed, limits);
    const Outcome outcome = run(scenario, seed);
    if (!outcome.failure) continue;
    constexpr std::uint64_t schedules_of_a_candidate = 20;
    std::string what = *outcome.failure;
    const auto fails = [&](const comm_check::Scenario& candidate) {
      for (std::uint64_t schedule = seed; schedule < seed + schedules_of_a_candidate; ++schedule)
        if (const auto failure = run(candidate, schedule).failure) {
          what = *failure;
          return true;
        }
      return false;
    };
    const comm_check::Scenario shortest = shrunk(scenario, fails);
    return *outcome.failure + "\n" + describe(scenario) + "shortest: " + what + "\n" + describe(shortest);
  }
  return std::nullopt;
}

}  // namespace lockstep::schedules
