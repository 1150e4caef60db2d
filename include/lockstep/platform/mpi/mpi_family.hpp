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
