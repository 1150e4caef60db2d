// SPDX-License-Identifier: Apache-2.0
#pragma once

// All that a program needs to let ranks work together. No header of MPI, CUDA or NCCL is included here. A program that
// is an MPI program already includes lockstep/mpi.hpp as well.

#include "lockstep/base/version.hpp"  // refuses C++ that is older than C++20 in one sentence

#if __cplusplus >= 202002L
#include "lockstep/backends/compressed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/ddp/checkpoint.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#if __has_include("lockstep/mpi/world.hpp")  // not in an installation without MPI
#include "lockstep/mpi/world.hpp"
#endif
#endif
