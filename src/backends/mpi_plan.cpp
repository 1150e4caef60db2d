// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_plan.hpp"

#include <string>
#include <utility>

#include "backends/plan/message_medium.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "backends/plan_settings.hpp"
#include "backends/shared_node.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/make_node_memory.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::backends {

std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options) {
  require_equal(group, settings_of("mpi_plan", options));
  PlanOptions able = options;
  able.selection = selection_on(group.shape(), options.selection);
  std::shared_ptr<NodeMemory> memory;
  if (may_share_memory(able.selection)) {
    std::string why_not;
    memory = share_memory(group, PlanCommunicator::control_bytes(able), options.notice, why_not);
    if (!memory && is_shared_memory_demanded(able.selection)) {
      throw Error(ErrorCode::unsupported, "the ranks of a node cannot share memory (" + why_not +
                                              "); choose an algorithm that sends messages, such as ring")
          .on_every_rank();
    }
    if (!memory) go_by_messages(group, able.selection, why_not, options.notice);
  }
  auto communicator = std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{.backend = "mpi_plan",
                                 .rank = group.rank(),
                                 .shape = group.shape(),
                                 .hostname = group.host(),
                                 .control = make_control_channel(group, group.shape())},
      std::make_unique<MessageMedium>(group, PlanCommunicator::channels(able)), std::move(memory), progress, able);
  communicator->enlist();
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::backends
