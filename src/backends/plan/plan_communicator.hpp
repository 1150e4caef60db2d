#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/host/communicator.hpp"
#include "backends/plan/medium.hpp"
#include "backends/plan/schedule_cache.hpp"
#include "lockstep/backends/plan/options.hpp"

namespace lockstep::backends {

/// A communicator whose operations are plans over a medium.
class PlanCommunicator : public HostCommunicator {
 public:
  /// Who this rank is, for plans and for error messages.
  struct Identity {
    std::string_view backend;
    Rank rank;
    int size = 1;
    std::string host;
  };
  /// @throws Error{invalid_argument} unless segment, blocks and operations in flight are at least 1
  PlanCommunicator(const Identity& identity, std::unique_ptr<Medium> medium, Progress& progress,
                   const PlanOptions& options);
  ~PlanCommunicator() override;

 protected:
  std::shared_ptr<HostOperation> make_operation() override;
  void prepare(HostOperation& operation, const Collective& collective) override;
  void release() override { medium_->close(); }

 private:
  std::unique_ptr<Medium> medium_;
  int blocks_in_flight_;
  ScheduleCache schedules_;
};

}  // namespace lockstep::backends
