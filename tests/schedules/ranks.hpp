// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "apps/comm-check/member.hpp"
#include "schedules/cluster.hpp"
#include "schedules/scheduler.hpp"

namespace lockstep::schedules {

/// The resources of all ranks, which live until the last rank has ended.
struct Ranks {
  /// @param of      returns the scenario as a rank takes it
  /// @param before  called whenever a rank pauses; may be empty
  Ranks(const comm_check::Scenario& scenario, const Cluster::Setting& setting, Scheduler& scheduler,
        const std::function<const comm_check::Scenario&(int rank)>& of, const std::function<void(int rank)>& before)
      : cluster(scenario, setting) {
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      progress.push_back(
          std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0, .yields_before_sleep = 2}, &scheduler));
      members.push_back(std::make_unique<comm_check::Member>(
          of(rank), rank, *progress.back(), comm_check::Member::Together::members,
          [this, rank](std::size_t group) {
            return cluster.make(group, rank, *progress[static_cast<std::size_t>(rank)]);
          },
          [&scheduler, before, rank](unsigned drawn) {
            if (before) before(rank);
            for (unsigned n = drawn % 4; n > 0; --n) scheduler.preempt();
            scheduler.note_progress();
          }));
    }
  }

  Cluster cluster;
  std::vector<std::unique_ptr<Progress>> progress;
  std::vector<std::unique_ptr<comm_check::Member>> members;
};

}  // namespace lockstep::schedules
