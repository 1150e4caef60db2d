// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/ddp/process_group.hpp"

/// Where the ranks of groups come from, with MPI and without.
namespace lockstep::bindings {

/// All ranks of the job, as the launcher's variables tell. Groups from the environment share one, which ends with the
/// last of them.
class Environment {
 public:
  Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  virtual ~Environment() = default;
  [[nodiscard]] virtual const RankSet& ranks() const = 0;
  /// Collective. @throws as ProcessGroup
  virtual ProcessGroup make_group(const GroupOptions& options) = 0;
  /// Collective. @throws Error{timeout | transport}
  virtual void close() = 0;
};

/// The environment of this process; makes it, which is collective, where it does not exist.
/// @param prepare  is called with the ranks of one that is made
/// @throws as World, from_environment and `prepare`
std::shared_ptr<Environment> environment_of_this_process(const GroupOptions& options,
                                                         const std::function<void(const RankSet&)>& prepare);

/// Makes the environment by the variables that torchrun sets. @throws as from_environment
std::shared_ptr<Environment> environment_of_variables(const GroupOptions& options);
/// Makes the one that this build has for ranks that mpirun or srun has started; null if this process is none of them.
std::shared_ptr<Environment> environment_of_mpi(const GroupOptions& options);

/// @param communicator  by MPI_Comm_c2f. @throws as from_mpi_handle; Error{unsupported} in a build without MPI
RankSet ranks_of_communicator(std::int64_t communicator, std::chrono::duration<double> deadline);

}  // namespace lockstep::bindings
