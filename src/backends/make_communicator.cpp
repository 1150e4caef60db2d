// SPDX-License-Identifier: Apache-2.0
#include "backends/make_communicator.hpp"

#include <algorithm>

#include "backends/mpi_native.hpp"
#include "backends/mpi_plan.hpp"
#include "backends/selection_file.hpp"
#include "base/nearest.hpp"
#include "platform/mpi/cluster_view.hpp"
#include "platform/ranks/connector.hpp"

namespace lockstep::backends {

using collectives::Selection;

namespace {

constexpr std::string_view automatic = "auto";
constexpr std::string_view mpi = "mpi";

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

void add_terms(Agreement& agreement, const RankSet& group, const CommunicatorOptions& options) {
  PlanOptions plan = options.plan;
  const Selection* const wish = selection_of(options.method);
  if (wish != nullptr) plan.selection = *wish;
  agreement.add(terms_of(plan));
  if (wish == nullptr) agreement.add({{"algorithm", std::string(mpi)}});
  if (!options.tuning.empty()) agreement.add({{"selection table", "from a file of rank 0"}});
  agreement.add({{"compression", options.compress ? std::string(name(*options.compress)) : "none"},
                 {"check of calls", options.check ? "yes" : "no"}});
  if (group.shape().nodes() == 1) add_binding(agreement);
  agreement.add_fact("RDMA", has_rdma() ? "yes" : "no");
}

void settle(const RankSet& group, const Agreement& agreement, CommunicatorOptions& options) {
  check_compression(options);
  const Selection* const wish = selection_of(options.method);
  if (wish == nullptr) return;
  PlanOptions& plan = options.plan;
  plan.selection = selection_on(group.shape(), *wish);
  if (!plan.selection.forced && !options.tuning.empty())
    plan.selection.table = agreed_selection_table(group, options.tuning);
  if (group.shape().nodes() == 1 && take_turns(agreement))
    plan.node.pull_limit = std::max(plan.node.pull_limit, NodeOptions::pull_limit_in_turns);
  const std::vector<std::string> rdma = agreement.fact("RDMA");
  plan.sockets = sockets_on(group.shape(), plan.sockets, std::find(rdma.begin(), rdma.end(), "yes") != rdma.end());
}

std::unique_ptr<Communicator> make_communicator(const RankSet& group, Progress& progress,
                                                CommunicatorOptions& options) {
  PlanOptions& plan = options.plan;
  auto communicator = options.selection() != nullptr ? make_mpi_plan(group, progress, plan)
                                                     : make_mpi_native(group, progress,
                                                                       {.message_limit = plan.message_limit,
                                                                        .check = options.check,
                                                                        .deadline = plan.deadline,
                                                                        .observer = plan.observer});
  if (options.compress) return make_compressed(std::move(communicator), *options.compress, progress);
  return communicator;
}

}  // namespace lockstep::backends
