// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/platform/mpi/mpi_family.hpp"
#include "platform/mpi/arrival.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/node_memory/node_file.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& why) {
  throw Error(code, "cannot adopt the program's communicator: " + why, {.operation = "adopt"});
}

/// Number of the node of each rank of a communicator. Collective.
ClusterShape discover_shape(const MpiGroup& all) {
  auto handle = std::make_unique<MpiGroup::Handle>();
  LOCKSTEP_MPI(MPI_Comm_split_type(communicator(all), MPI_COMM_TYPE_SHARED, all.rank().value, MPI_INFO_NULL,
                                   &handle->communicator));
  // The number of a node's first rank identifies the node.
  int leader = all.rank().value;
  LOCKSTEP_MPI(MPI_Bcast(&leader, 1, MPI_INT, 0, handle->communicator));
  LOCKSTEP_MPI(MPI_Comm_free(&handle->communicator));
  const auto leaders = all_gather_numbers(all, leader);
  return number_nodes(std::vector<int>(leaders.begin(), leaders.end()));
}

void check_running() {
  int initialized = 0;
  int finalized = 0;
  LOCKSTEP_MPI(MPI_Initialized(&initialized));
  LOCKSTEP_MPI(MPI_Finalized(&finalized));
  if (initialized == 0) refuse(ErrorCode::invalid_argument, "MPI is not initialized yet; call MPI_Init first");
  if (finalized != 0) refuse(ErrorCode::invalid_argument, "MPI is finalized already");
}

}  // namespace

// MPI_Comm_dup would call the program's functions that copy attributes. Of the new communicator alone are errors
// returned.
MpiGroup group_beside(MPI_Comm theirs, std::chrono::duration<double> deadline) {
  await_arrival(theirs, deadline);
  auto handle = std::make_unique<MpiGroup::Handle>();
  handle->node_files = std::make_shared<NodeFiles>();
  LOCKSTEP_MPI(MPI_Comm_split(theirs, 0, 0, &handle->communicator));
  LOCKSTEP_MPI(MPI_Comm_set_errhandler(handle->communicator, MPI_ERRORS_RETURN));
  auto members = std::make_shared<MpiGroup::Members>();
  MpiGroup group(std::move(handle), members);
  members->hosts = all_gather_strings(group, processor_name());
  members->shape = discover_shape(group);
  return group;
}

MpiGroup MpiGroup::adopt(std::int64_t fortran_handle, std::string_view family, std::chrono::duration<double> deadline) {
  if (family != LOCKSTEP_MPI_FAMILY) {
    refuse(ErrorCode::unsupported, "the program was compiled with the headers of " + std::string(family) +
                                       ", lockstep with those of " LOCKSTEP_MPI_FAMILY
                                       ": build both with the same MPI library");
  }
  check_running();
  MPI_Comm theirs = MPI_Comm_f2c(static_cast<MPI_Fint>(fortran_handle));
  if (theirs == MPI_COMM_NULL) refuse(ErrorCode::invalid_argument, "it is MPI_COMM_NULL on this rank");
  int between_groups = 0;
  LOCKSTEP_MPI(MPI_Comm_test_inter(theirs, &between_groups));
  if (between_groups != 0) {
    refuse(ErrorCode::invalid_argument, "it is an intercommunicator; pass one of a single group of ranks");
  }
  return group_beside(theirs, deadline);
}

}  // namespace lockstep
