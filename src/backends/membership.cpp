// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backends/membership.hpp"

#include <utility>

#include "backends/shared_node.hpp"
#include "lockstep/backends/mpi_native.hpp"
#include "lockstep/backends/mpi_plan.hpp"
#include "lockstep/backends/selection_file.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/require_equal.hpp"
#include "lockstep/platform/world.hpp"

namespace lockstep::backends {
namespace {

using collectives::Selection;

/// Every MPI call of a Membership is made under its Progress's lock: on two threads, never at once.
void check_thread_level() {
  if (provided_thread_level() >= ThreadLevel::serialized) return;
  throw Error(ErrorCode::unsupported,
              "a progress thread needs MPI initialised with MPI_THREAD_SERIALIZED at least, better with "
              "MPI_THREAD_MULTIPLE: ask for that level, or do without the thread");
}

void check_compression(const MembershipOptions& options) {
  const Selection* selection = selection_of(options.method);
  if (options.compress && selection != nullptr && is_canonical(*selection)) {
    throw Error(ErrorCode::invalid_argument,
                "compression (" + std::string(name(*options.compress)) + ") cannot be had with the algorithm " +
                    std::string(name(options.method)) +
                    ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, "
                    "which it keeps the same; leave one of them out");
  }
}

std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const MembershipOptions& options,
                                                const std::optional<Selection>& selection) {
  if (!selection) {
    return make_mpi_native(group, progress,
                           {.check = options.check, .deadline = options.deadline, .observer = options.observer});
  }
  return make_mpi_plan(
      group, progress,
      {.selection = *selection, .deadline = options.deadline, .observer = options.observer, .notice = options.notice});
}

}  // namespace

std::optional<Selection> agree_on_selection(const MpiGroup& group, const MembershipOptions& options) {
  require_equal(group, {{"algorithm", std::string(name(options.method))},
                        {"selection table", options.tuning.empty() ? "none" : "from a file of rank 0"},
                        {"compression", options.compress ? std::string(name(*options.compress)) : "none"},
                        {"check of calls", options.check ? "yes" : "no"}});
  const Selection* wish = selection_of(options.method);
  if (wish == nullptr) return std::nullopt;
  Selection selection = selection_on(group.shape(), *wish);
  if (!selection.forced && !options.tuning.empty()) selection.table = agreed_selection_table(group, options.tuning);
  settle_shared_memory(group, selection, options.notice);
  return selection;
}

std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const MembershipOptions& options) {
  return make_communicator(group, progress, options, agree_on_selection(group, options));
}

Membership::Membership(const MpiGroup& group, const MembershipOptions& options)
    : host_(group.host()),
      selection_(agree_on_selection(group, options)),
      progress_(std::make_unique<Progress>(options.wait)) {
  if (options.progress_thread) check_thread_level();
  check_compression(options);
  gradients_ = make_communicator(group, *progress_, options, selection_);
  if (options.compress) gradients_ = make_compressed(std::move(gradients_), *options.compress, *progress_);
  MembershipOptions unobserved = options;
  unobserved.observer = nullptr;
  statistics_ = make_communicator(group, *progress_, unobserved, selection_);
  if (options.progress_thread) {
    progress_thread_ = std::make_unique<ProgressThread>(
        *progress_, ProgressThreadOptions{.spins_before_nap = options.wait.spins_before_yield});
  }
}

void Membership::close() {
  progress_thread_.reset();
  gradients_->close();
  statistics_->close();
}

}  // namespace lockstep::backends
