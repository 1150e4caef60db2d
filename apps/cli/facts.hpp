// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "platform/machine/launch.hpp"
#include "platform/mpi/agreement.hpp"

namespace lockstep::cli {

/// What a run promises, and uses, decides whether a difference between ranks does harm.
struct RunNature {
  bool same_bits = false;  ///< whether the bits must not depend on where a part of the batch is computed (--shards)
  bool on_gpus = false;    ///< whether it may use GPUs
};

/// Returns the variables of the environment by which ranks could come to act differently: those of OpenMP's threads, of
/// oneDNN, of NCCL and of lockstep. Left out are those that hosts may well need different values of, such as network
/// interfaces, and those of logs.
std::vector<Term> variables_to_compare(const Environment& environment, const RunNature& nature);

/// Returns what ranks compare of their processes when they start, beside options and data: the build, the protocol,
/// the versions of MPI and hwloc, the processor's model, how it treats subnormal numbers, and the variables of the
/// environment.
std::vector<Term> facts_of_process(const RunNature& nature = {});

}  // namespace lockstep::cli
