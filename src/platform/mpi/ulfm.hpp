// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

/// What MPI libraries with ULFM (user-level failure mitigation) offer to ranks that outlive another one.
/// @source Bland, Bouteiller, Herault, Bosilca, Dongarra: Post-failure recovery of MPI communication capability, 2013
namespace lockstep {

/// Why this job cannot go on without ranks that have died, and the remedy; empty if it can. Equal on all ranks.
/// @pre MPI is initialized
std::string why_no_ulfm();

/// Whether an MPI call has failed because a process has ended, or because another rank has revoked the communicator.
bool is_of_death(int code);
/// Whether another rank has revoked the communicator.
bool is_revoked(int code);

/// The ranks of a communicator that have died, as far as this process knows.
std::vector<int> dead_ranks(MPI_Comm communicator);

/// Makes all calls on the communicator fail, under way or later, on all its ranks. It waits for nobody.
void revoke(MPI_Comm communicator);

/// What the living ranks of a communicator have agreed on.
struct LivingVerdict {
  bool all = false;              ///< whether all of them have passed true
  bool has_anyone_died = false;  ///< whether a rank of the communicator is dead
};
/// Returns the same on all living ranks of the communicator, revoked or not. Collective over these.
/// @throws Error{transport}
LivingVerdict agree_among_living(MPI_Comm communicator, bool mine);

/// Makes a communicator of the living ranks, in their order. Collective over these. @throws Error{transport}
MPI_Comm shrink(MPI_Comm communicator);

}  // namespace lockstep
