// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/comm-check/scenario.hpp"
#include "backends/plan/thread_medium.hpp"
#include "lockstep/backends/plan/options.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/node_memory.hpp"
#include "schedules/fickle_medium.hpp"

namespace lockstep::schedules {

/// Makes the communicators of a scenario whose ranks are all in one thread, on one node or several, with heaps so that
/// some buffers can be reached by others and some cannot.
class Cluster {
 public:
  explicit Cluster(const check::Scenario& scenario);

  /// This rank's communicator of a group; does not wait for the others.
  std::unique_ptr<Communicator> make(std::size_t group, int rank, Progress& progress);

 private:
  /// What the ranks of a group share.
  struct Shared {
    ClusterShape shape;
    backends::PlanOptions options;
    std::shared_ptr<backends::LetterBoxes> boxes;
    std::shared_ptr<FickleMedium::Copies> copies;
    std::vector<std::shared_ptr<NodeMemory>> memories;  ///< by rank of the group; null without shared memory
    std::uint64_t seed = 0;                             ///< of what its messages do
  };
  void share(std::size_t group);

  const check::Scenario& scenario_;
  std::vector<int> node_of_rank_;
  std::vector<Shared> groups_;
};

}  // namespace lockstep::schedules
