// SPDX-License-Identifier: Apache-2.0
#include "backends/make_communicator.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/method.hpp"
#include "backends/mpi_native.hpp"
#include "backends/mpi_plan.hpp"
#include "backends/selection_file.hpp"
#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/agreement.hpp"
#include "platform/mpi/cluster_view.hpp"

namespace lockstep::backends {

using collectives::Selection;

namespace {

constexpr std::string_view automatic = "auto";
constexpr std::string_view mpi = "mpi";

/// The settings of ranks that share memory. They are the same on all ranks. Collective.
NodeOptions node_options(const MpiGroup& group) {
  NodeOptions options;
  if (group.shape().nodes() == 1 && take_turns(group)) options.pull_limit = NodeOptions::pull_limit_in_turns;
  return options;
}

}  // namespace

std::span<const std::string_view> method_names() {
  static const auto names = [] {
    const auto own = collectives::algorithm_names();
    std::vector<std::string_view> all{automatic};
    all.insert(all.end(), own.begin(), own.end());
    all.push_back(mpi);
    return all;
  }();
  return names;
}

Method parse_method(std::string_view name) {
  const std::span<const std::string_view> names = method_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw Error(ErrorCode::invalid_argument, unknown("algorithm", name, names));
  if (name == mpi) return MpiLibrary{};
  if (name == automatic) return Selection{};
  return collectives::forced({.algorithm = collectives::parse_algorithm(name)});
}

std::string_view name(const Method& method) {
  const Selection* selection = selection_of(method);
  if (selection == nullptr) return mpi;
  return selection->forced ? name(selection->forced->algorithm) : automatic;
}

void check_compression(const CommunicatorOptions& options) {
  const Selection* selection = selection_of(options.method);
  if (options.compress && selection != nullptr && is_canonical(*selection)) {
    throw Error(ErrorCode::invalid_argument,
                "compression (" + std::string(name(*options.compress)) + ") cannot be had with the algorithm " +
                    std::string(name(options.method)) +
                    ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, "
                    "which it keeps the same; leave one of them out");
  }
}

std::optional<Selection> agree_on_selection(const MpiGroup& group, const CommunicatorOptions& options) {
  require_equal(group, {{"algorithm", std::string(name(options.method))},
                        {"selection table", options.tuning.empty() ? "none" : "from a file of rank 0"},
                        {"compression", options.compress ? std::string(name(*options.compress)) : "none"},
                        {"sockets", std::string(name(options.sockets))},
                        {"check of calls", options.check ? "yes" : "no"}});
  check_compression(options);
  const Selection* wish = selection_of(options.method);
  if (wish == nullptr) return std::nullopt;
  Selection selection = selection_on(group.shape(), *wish);
  if (!selection.forced && !options.tuning.empty()) selection.table = agreed_selection_table(group, options.tuning);
  settle_shared_memory(group, selection, options.notice);
  return selection;
}

std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options,
                                                const std::optional<Selection>& selection) {
  std::unique_ptr<Communicator> communicator;
  if (selection) {
    communicator = make_mpi_plan(group, progress,
                                 {.selection = *selection,
                                  .node = node_options(group),
                                  .sockets = options.sockets,
                                  .deadline = options.deadline,
                                  .observer = options.observer,
                                  .notice = options.notice});
  } else {
    communicator = make_mpi_native(
        group, progress, {.check = options.check, .deadline = options.deadline, .observer = options.observer});
  }
  if (options.compress) return make_compressed(std::move(communicator), *options.compress, progress);
  return communicator;
}

std::unique_ptr<Communicator> make_communicator(const MpiGroup& group, Progress& progress,
                                                const CommunicatorOptions& options) {
  return make_communicator(group, progress, options, agree_on_selection(group, options));
}

}  // namespace lockstep::backends
