// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "backends/plan/options.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/ranks/agreement.hpp"

namespace lockstep::backends {

/// Selects the MPI library's own collectives.
struct MpiLibrary {
  friend bool operator==(const MpiLibrary&, const MpiLibrary&) = default;
};

/// What runs the operations of a communicator between processes: plans with a selection, or the MPI library.
using Method = std::variant<collectives::Selection, MpiLibrary>;

/// All names of methods: "auto" for the best known algorithm at each size, the algorithms of plans, and "mpi" for the
/// MPI library.
std::span<const std::string_view> method_names();
/// Parses the name of a method, for command lines.
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
Method parse_method(std::string_view name);
/// The inverse of parse_method.
std::string_view name(const Method& method);

/// The selection of a method with plans; null for the MPI library. It is valid as long as the method.
inline const collectives::Selection* selection_of(const Method& method) {
  return std::get_if<collectives::Selection>(&method);
}

/// How the communicators of a group are made. Options are the same on all ranks, except for the observer and the
/// notice.
struct CommunicatorOptions {
  Method method;       ///< what runs the operations; by default the fastest choice
  std::string tuning;  ///< file of a selection table, read by rank 0 if no algorithm is forced; empty: the cost model
  /// Makes all ranks compare their calls before each operation, as in MpiNativeOptions. Plans ignore it, because their
  /// messages carry signatures.
  bool check = false;
  /// The format to which float32 is rounded on the wire, in reductions; nothing: it is sent unchanged.
  std::optional<WireFormat> compress = std::nullopt;
  PlanOptions plan;  ///< its message limit, deadline and observer hold for the MPI library, too; `settle` completes it

  /// How algorithms are chosen; null if the MPI library chooses.
  [[nodiscard]] const collectives::Selection* selection() const {
    return selection_of(method) == nullptr ? nullptr : &plan.selection;
  }
};

/// Returns the selection for speed among the ranks of a group, as `settle` completes it. Collective.
/// @throws Error{transport | timeout}
collectives::Selection agreed_selection(const RankSet& group);

/// Adds what must be equal on all ranks of a group, and what its choices depend on, to the group's agreement.
void add_terms(Agreement& agreement, const RankSet& group, const CommunicatorOptions& options);
/// Completes the options after the exchange, so that they are the same on all ranks: the selection on this cluster,
/// with rank 0's table if no algorithm is forced, by how many the ranks of a node are divided, the pull limit of ranks
/// that take turns on cores, and the sockets. Collective if there is a table. @param agreement  `add_terms` has added
/// to it on all ranks, and the terms are equal
/// @throws as check_compression, selection_on and agreed_selection_table; Error{transport}
void settle(const RankSet& group, const Agreement& agreement, CommunicatorOptions& options);

/// Makes a communicator over the group. It compares no options. Collective.
/// @param options  settled; changed where this cluster lacks something, as by `make_plan_communicator`
/// @throws as make_plan_communicator and make_mpi_native
std::unique_ptr<Communicator> make_communicator(const RankSet& group, Progress& progress, CommunicatorOptions& options);

/// @throws Error{invalid_argument} for compression with an algorithm that guarantees the same bits
void check_compression(const CommunicatorOptions& options);

/// Combines two communicators of the same ranks into one that takes buffers in any memory: `on_device` runs the
/// operations on device memory, and allocates; `on_host` runs all others, including barriers. Operations on different
/// kinds of memory are ordered only by waiting. All ranks' buffers of an operation are in the same kind of memory, and
/// so are input and output.
std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device);

}  // namespace lockstep::backends
