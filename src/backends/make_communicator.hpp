// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/backends/compressed.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

struct CommunicatorOptions {
  Method method;       ///< what runs the operations; as it is made, what is fastest
  std::string tuning;  ///< file of a selection table, read by rank 0 where nothing is forced; empty: the cost model
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  /// All ranks compare what they call before each operation; as MpiNativeOptions. Plans carry signatures with
  /// what they exchange, and do without.
  bool check = false;
  Observer* observer = nullptr;                            ///< outlives the communicator
  std::function<void(std::string_view)> notice = nullptr;  ///< as PlanOptions::notice
  /// What float32 is rounded to for the way, in reductions; nothing: it travels as it is.
  std::optional<WireFormat> compress = std::nullopt;
};

/// What the group's communicators go by: the method's selection on this cluster, with rank 0's table where nothing is
/// forced. The same on all ranks. Nothing for the MPI library. Collective.
/// @throws as selection_on and agreed_selection_table; Error{mismatch} that names the ranks with other options;
///         Error{invalid_argument} for compression with an algorithm that promises the same bits at any number of
///         ranks; Error{transport}
std::optional<collectives::Selection> agree_on_selection(const MpiGroup& group, const CommunicatorOptions& options);

/// A communicator over the group that goes by what was agreed on. Collective.
std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options,
                                                const std::optional<collectives::Selection>& selection);
/// Both. @throws as agree_on_selection
std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options);

/// @throws Error{invalid_argument} for compression with an algorithm that promises the same bits
void check_compression(const CommunicatorOptions& options);

}  // namespace lockstep::backends
