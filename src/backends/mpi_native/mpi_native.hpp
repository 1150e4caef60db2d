// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep::backends {

struct MpiNativeOptions {
  /// Larger operations are divided into pieces, because MPI's counts are ints.
  Bytes message_limit{1 << 30};
  /// Makes all ranks compare their calls before each operation, and fail with Error{mismatch} before data are touched.
  /// Operations then run one at a time, each after an exchange of a few bytes.
  bool check = false;
  std::chrono::duration<double> deadline = usual_deadline;
  Observer* observer = nullptr;  ///< is notified of each operation that ends; outlives the communicator
};

/// Makes a communicator over the MPI library's own nonblocking collectives. The library determines the order of
/// addition, the result of an integer overflow, and what becomes of NaNs in a maximum or minimum. (Open MPI 4.1 with
/// AVX saturates sums of uint8 at 255, and drops some NaNs, but not in the elements after the last whole vector.)
/// Collective over `group`, which may be closed afterwards.
/// @param options  the same on all ranks, except for the observer; they are not compared here
/// @throws Error{transport}; Error{invalid_argument} if the message limit is below 8 bytes
std::unique_ptr<Communicator> make_mpi_native(const RankSet& group, Progress& progress,
                                              const MpiNativeOptions& options = {});

/// Makes one call of the MPI library's blocking collective: a baseline for measurements. It has neither a deadline nor
/// progress of other operations, and validates only what MPI validates. Use a communicator for training.
/// Buffers are as in `Communicator`, except for a reduce_scatter in place, which MPI defines differently (its result
/// overwrites the beginning of the input). MPI has no operators for float16 and bfloat16, so each call creates one.
/// @throws Error{unsupported} for a reduce_scatter in place, or for more elements per rank than an `int` can count;
///         Error{transport}
void mpi_blocking(const RankSet& group, const Collective& collective);

}  // namespace lockstep::backends
