// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/plan/medium.hpp"
#include "backends/plan/message_operation.hpp"
#include "backends/plan/node_link.hpp"
#include "backends/plan/options.hpp"
#include "backends/plan/plan_operation.hpp"
#include "backends/plan/schedule_cache.hpp"
#include "comm/host_communicator.hpp"
#include "kernels/reduce.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep::backends {

/// A communicator whose operations are plans over a medium.
class PlanCommunicator : public HostCommunicator {
 public:
  /// The identity of this rank, for plans and for error messages.
  struct Identity {
    std::string_view backend;
    Rank rank;
    ClusterShape shape;
    std::string hostname;
    std::shared_ptr<ControlChannel> control{};  ///< as HostCommunicator::Options
  };
  /// @param node  the memory that this rank shares with its node; null if no algorithm uses it
  /// @param options  `selection_on` has given their selection this cluster's shape
  /// @throws Error{invalid_argument} unless operations in flight and staging are at least 1, and the selection is for
  ///         as many ranks
  PlanCommunicator(const Identity& identity, std::unique_ptr<Medium> medium, std::shared_ptr<NodeMemory> node,
                   Progress& progress, const PlanOptions& options);
  ~PlanCommunicator() override;

  /// Allocates memory that the node's ranks can access, if they share any.
  Allocation allocate(Bytes bytes) override;

  /// Returns the number of channels, one for each block that can be in flight.
  static int channels(const PlanOptions& options);
  /// Returns the bytes that a NodeMemory's control areas need for these options.
  static Bytes control_bytes(const PlanOptions& options);

 protected:
  std::shared_ptr<HostOperation> make_operation(CollectiveKind kind) override;
  void prepare(HostOperation& operation, const Collective& collective) override;
  void release() override;
  void check_peers() override;
  bool sleep_unless(bool all_are_woken, const std::function<bool()>& moved, std::chrono::nanoseconds at_most) override;

 private:
  void prepare_plan(PlanOperation& plan, const Collective& collective);
  [[nodiscard]] bool is_pulled(const Collective& collective) const;
  [[nodiscard]] kernels::Residence residence(const Collective& collective, collectives::Reach reach) const;

  std::unique_ptr<Medium> medium_;
  Messages messages_;
  std::unique_ptr<NodeLink> link_;  // null if there are only messages
  NodeOptions node_options_;
  bool is_one_node_;
  int ranks_per_cache_;  // 0: all-reduces do not add up the ranks of each cache first
  int max_blocks_in_flight_;
  int patience_ = PlanOperation::polls_before_help;
  ScheduleCache schedules_;
};

}  // namespace lockstep::backends
