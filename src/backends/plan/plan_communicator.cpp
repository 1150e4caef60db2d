#include "backends/plan/plan_communicator.hpp"

#include <string>
#include <utility>

#include "backends/plan/plan_operation.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

const PlanOptions& checked(const PlanOptions& options) {
  const auto at_least_one = [](std::string_view what, std::int64_t value) {
    if (value >= 1) return;
    throw Error(ErrorCode::invalid_argument, std::string(what) + " must be at least 1; it is " + std::to_string(value));
  };
  at_least_one("the segment (bytes)", options.segment.value);
  at_least_one("the number of blocks in flight", options.blocks_in_flight);
  at_least_one("the number of operations in flight", options.operations_in_flight);
  return options;
}

}  // namespace

PlanCommunicator::PlanCommunicator(const Identity& identity, std::unique_ptr<Medium> medium, Progress& progress,
                                   const PlanOptions& options)
    : HostCommunicator(identity.rank, identity.size, progress,
                       {.backend = identity.backend,
                        .host = identity.host,
                        .operations_in_flight = checked(options).operations_in_flight,
                        .deadline = options.deadline,
                        .observer = options.observer}),
      medium_(std::move(medium)),
      blocks_in_flight_(options.blocks_in_flight),
      schedules_(identity.rank, identity.size, options.algorithm, options.segment) {}

PlanCommunicator::~PlanCommunicator() {
  if (!closed_or_parked()) park(std::shared_ptr<Medium>(std::move(medium_)));
}

std::shared_ptr<HostOperation> PlanCommunicator::make_operation() {
  return std::make_shared<PlanOperation>(*medium_, blocks_in_flight_);
}

void PlanCommunicator::prepare(HostOperation& operation, const Collective& collective) {
  static_cast<PlanOperation&>(operation).prepare(collective, schedules_.find_or_make(collective));
}

}  // namespace lockstep::backends
