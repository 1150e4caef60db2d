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
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/comm/progress_thread.hpp"
#include "lockstep/platform/mpi_group.hpp"

namespace lockstep::backends {

struct MembershipOptions {
  Method method;       ///< what runs the operations; as it is made, what is fastest
  std::string tuning;  ///< file of a selection table, read by rank 0 where nothing is forced; empty: the cost model
  WaitPolicy wait;
  /// A thread moves operations while the program computes. The program then makes no MPI calls of its own while
  /// operations are under way, unless MPI was initialised with MPI_THREAD_MULTIPLE. Not of `make_communicator`.
  bool progress_thread = false;
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  /// All ranks compare what they call before each operation; as MpiNativeOptions. Plans carry signatures with
  /// what they exchange, and do without.
  bool check = false;
  Observer* observer = nullptr;                            ///< of the gradients' communicator; outlives the membership
  std::function<void(std::string_view)> notice = nullptr;  ///< as PlanOptions::notice
  /// What float32 gradients are rounded to for the way; nothing: they travel as they are.
  std::optional<WireFormat> compress = std::nullopt;
};

/// What the group's communicators go by: the method's selection on this cluster, with rank 0's table where nothing is
/// forced. The same on all ranks. Nothing for the MPI library. Collective.
/// @throws as selection_on and agreed_selection_table; Error{transport}
std::optional<collectives::Selection> agree_on_selection(const MpiGroup& group, const MembershipOptions& options);

/// A communicator over the group with the back end that runs the method. Collective.
/// @throws as agree_on_selection
std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const MembershipOptions& options);

/// Who trains together, for as long as nothing changes: this rank's number among how many, and the communicators.
/// At a step boundary it can be closed and another made, of other ranks.
///
/// Gradients and statistics have a communicator each, so that a layer that communicates in the middle of backward needs
/// no place in the buckets' order.
class Membership {
 public:
  /// Collective over `group`, which may be closed afterwards.
  /// @throws as make_communicator; Error{unsupported} if a progress thread is asked for and MPI was initialised with
  ///         less than MPI_THREAD_SERIALIZED; Error{invalid_argument} for compression with an algorithm that promises
  ///         the same bits at any number of ranks
  Membership(const MpiGroup& group, const MembershipOptions& options);

  [[nodiscard]] Rank rank() const { return gradients_->rank(); }
  [[nodiscard]] int size() const { return gradients_->size(); }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] Communicator& gradients() const { return *gradients_; }
  [[nodiscard]] Communicator& statistics() const { return *statistics_; }
  [[nodiscard]] Progress& progress() const { return *progress_; }
  /// By which the communicators choose; nothing where the MPI library does.
  [[nodiscard]] const std::optional<collectives::Selection>& selection() const { return selection_; }

  /// Collective; no operation may be under way. @throws Error{transport}
  void close();

 private:
  std::string host_;
  std::optional<collectives::Selection> selection_;
  std::unique_ptr<Progress> progress_;  // before the communicators, which are registered with it
  std::unique_ptr<Communicator> gradients_;
  std::unique_ptr<Communicator> statistics_;
  std::unique_ptr<ProgressThread> progress_thread_;  // after all that it drives
};

}  // namespace lockstep::backends
