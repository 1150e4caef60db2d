// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

struct MpiNativeOptions {
  /// Larger operations are divided into pieces, because MPI's counts are ints.
  Bytes message_limit{1 << 30};
  /// Makes all ranks compare their calls before each operation, and fail with Error{mismatch} before data are touched.
  /// Operations then run one at a time, each after an exchange of a few bytes.
  bool check = false;
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  Observer* observer = nullptr;  ///< is notified of each operation that ends; outlives the communicator
};

/// Makes a communicator over the MPI library's own nonblocking collectives. The library determines the order of
/// addition and the result of an integer overflow (Open MPI 4.1 saturates uint8 at 255 in reduce_scatter, where
/// lockstep's own algorithms wrap around). Collective over `group`, which may be closed afterwards.
/// @throws Error{transport}; Error{invalid_argument} if the message limit is below 8 bytes
std::unique_ptr<Communicator> make_mpi_native(const MpiGroup& group, Progress& progress,
                                              const MpiNativeOptions& options = {});

}  // namespace lockstep::backends
