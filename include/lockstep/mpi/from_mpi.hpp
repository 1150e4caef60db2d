// SPDX-License-Identifier: Apache-2.0
#pragma once

// The MPI library whose mpi.h was included before this header. Libraries of one family have the same binary interface,
// so that a program compiled with the headers of one runs with another.
#ifndef MPI_VERSION
#error "include <mpi.h> first"
#endif

#if defined(MPI_ABI_VERSION)
#define LOCKSTEP_MPI_FAMILY "the MPI standard's own binary interface"
#elif defined(OMPI_MAJOR_VERSION)
#define LOCKSTEP_MPI_FAMILY "Open MPI"
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION) || defined(MVAPICH2_VERSION)
#define LOCKSTEP_MPI_FAMILY "MPICH or one that is compatible with it"
#else
#define LOCKSTEP_MPI_FAMILY "an MPI library that lockstep does not know"
#endif

#include <chrono>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// Makes a set of the ranks of a program's own communicator. The communicator stays the program's and may be freed
/// afterwards; its error handler, its attributes and the thread level of MPI do not change. Collective over that
/// communicator. C++ programs call `from_mpi` of `lockstep/mpi.hpp` with an `MPI_Comm` instead.
/// @param fortran_handle  the communicator, converted by `MPI_Comm_c2f`
/// @param family          the MPI library whose headers the caller was compiled with, LOCKSTEP_MPI_FAMILY
/// @param deadline        how long this call and each later step of the set waits for all ranks
/// @throws Error{timeout} that names the missing ranks; Error{unsupported} if lockstep was built with another MPI
///         library; Error{invalid_argument} for a null communicator or an intercommunicator, and if MPI is not
///         initialized; Error{transport}
RankSet from_mpi_handle(std::int64_t fortran_handle, std::string_view family,
                        std::chrono::duration<double> deadline = usual_deadline);

}  // namespace lockstep
