// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backends/method.hpp"
#include "backends/plan/options.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

struct CommunicatorOptions {
  Method method;       ///< what runs the operations; by default the fastest choice
  std::string tuning;  ///< file of a selection table, read by rank 0 if no algorithm is forced; empty: the cost model
  std::chrono::duration<double> deadline = usual_deadline;
  /// Makes all ranks compare their calls before each operation, as in MpiNativeOptions. Plans ignore it, because their
  /// messages carry signatures.
  bool check = false;
  Observer* observer = nullptr;                            ///< outlives the communicator
  std::function<void(std::string_view)> notice = nullptr;  ///< as PlanOptions::notice
  /// The format to which float32 is rounded on the wire, in reductions; nothing: it is sent unchanged.
  std::optional<WireFormat> compress = std::nullopt;
  Sockets sockets = Sockets::automatic;  ///< as PlanOptions::sockets
};

/// Returns the selection that the group's communicators use: the method's selection on this cluster, with rank 0's
/// table if no algorithm is forced. It is the same on all ranks, and empty for the MPI library. Collective.
/// @throws as selection_on and agreed_selection_table; Error{mismatch} that names the ranks with other options;
///         Error{invalid_argument} for compression with an algorithm that guarantees the same bits at any number of
///         ranks; Error{transport}
std::optional<collectives::Selection> agree_on_selection(const MpiGroup& group, const CommunicatorOptions& options);

/// Makes a communicator over the group that uses the agreed selection. Collective.
std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options,
                                                const std::optional<collectives::Selection>& selection);
/// Agrees on a selection and makes the communicator. @throws as agree_on_selection
std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options);

/// @throws Error{invalid_argument} for compression with an algorithm that guarantees the same bits
void check_compression(const CommunicatorOptions& options);

/// Combines two communicators of the same ranks into one that takes buffers in any memory: `on_device` runs the
/// operations on device memory, and allocates; `on_host` runs all others, including barriers. Operations on different
/// kinds of memory are ordered only by waiting. All ranks' buffers of an operation are in the same kind of memory, and
/// so are input and output.
std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device);

}  // namespace lockstep::backends
