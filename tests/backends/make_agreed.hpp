// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/make_communicator.hpp"
#include "backends/plan_on_ranks.hpp"

namespace lockstep::backends {

/// Makes a communicator of plans with options that are the same on all ranks, so that there is nothing to compare.
inline std::unique_ptr<Communicator> plan_on(const RankSet& group, Progress& progress, PlanOptions options = {}) {
  options.selection = selection_on(group.shape(), options.selection);
  options.sockets = sockets_on(group.shape(), options, has_rdma());
  return make_plan_communicator(group, progress, options);
}

/// Lets the ranks agree on the options of a group, as a ProcessGroup does.
inline void agree_on(const RankSet& group, CommunicatorOptions& options) {
  Agreement agreement;
  add_terms(agreement, group, options);
  agreement.exchange(group);
  (void)agreement.require_equal_terms();
  settle(group, agreement, options);
}

/// Lets the ranks agree on the options, and makes a communicator.
inline std::unique_ptr<Communicator> make_agreed(const RankSet& group, Progress& progress,
                                                 CommunicatorOptions options = {}) {
  agree_on(group, options);
  return make_communicator(group, progress, options);
}

}  // namespace lockstep::backends
