// SPDX-License-Identifier: Apache-2.0
#pragma once

// All that a program needs to work with ranks together. None of it includes a header of MPI, CUDA or NCCL; a program
// that is an MPI program already includes lockstep/mpi.hpp beside it.

#include "lockstep/backends/compressed.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/version.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/mpi/world.hpp"
