#include "lockstep/backends/mpi_plan.hpp"

#include <utility>

#include "backends/plan/message_medium.hpp"
#include "backends/plan/plan_communicator.hpp"

namespace lockstep::backends {

std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, std::string host, Progress& progress,
                                            const PlanOptions& options) {
  return std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{
          .backend = "mpi_plan", .rank = group.rank(), .size = group.size(), .host = std::move(host)},
      std::make_unique<MessageMedium>(group), progress, options);
}

}  // namespace lockstep::backends
