// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "bindings/c/ranks.hpp"
#include "lockstep/mpi.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::bindings {
namespace {

class OfMpi final : public Environment {
 public:
  explicit OfMpi(const GroupOptions& options) : world_({.deadline = options.deadline, .notice = options.notice}) {}
  [[nodiscard]] const RankSet& ranks() const override { return world_.group(); }
  ProcessGroup make_group(const GroupOptions& options) override { return ProcessGroup(world_, options); }
  void close() override { world_.close(); }

 private:
  World world_;
};

/// Whether torchrun, or another launcher that sets its variables, has started this process, and not mpirun or srun.
bool is_of_variables() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  constexpr std::array of_mpi = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  constexpr std::array of_torchrun = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  if (!std::all_of(of_torchrun.begin(), of_torchrun.end(), is_set)) return false;
  return is_set("TORCHELASTIC_RUN_ID") || std::none_of(of_mpi.begin(), of_mpi.end(), is_set);
}

}  // namespace

std::shared_ptr<Environment> environment_of_mpi(const GroupOptions& options) {
  return is_of_variables() ? nullptr : std::make_shared<OfMpi>(options);
}

RankSet ranks_of_communicator(std::int64_t communicator, std::chrono::duration<double> deadline) {
  return from_mpi_handle(communicator, LOCKSTEP_MPI_FAMILY, deadline);
}

}  // namespace lockstep::bindings
