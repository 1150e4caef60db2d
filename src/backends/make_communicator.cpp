// SPDX-License-Identifier: Apache-2.0
#include "backends/make_communicator.hpp"

#include <algorithm>

#include "backends/message_library.hpp"
#include "backends/plan_on_ranks.hpp"
#include "backends/selection_file.hpp"
#include "base/nearest.hpp"
#include "platform/ranks/connector.hpp"
#include "platform/ranks/placement_facts.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep::backends {

using collectives::Selection;

namespace {

constexpr std::string_view automatic = "auto";
constexpr std::string_view mpi = "mpi";

/// @throws Error{unsupported} for ranks that no library connects
const MessageLibrary& required_library(const RankSet& group) {
  if (const MessageLibrary* const library = library_of(group)) return *library;
  throw Error(ErrorCode::unsupported,
              "this needs ranks that MPI knows: make the set by from_mpi or a World, or choose another algorithm than "
              "mpi",
              {.rank = group.rank().value, .host = group.host()})
      .on_every_rank();
}

bool is_large(const RankSet& group) {
  return collectives::summarize(group.shape()).max_ranks_per_node >= least_ranks_by_cache;
}

/// Adds where the ranks run, as far as it matters.
void add_placement(Agreement& agreement, const RankSet& group) {
  if (group.shape().nodes() > 1 && !is_large(group)) return;
  add_binding(agreement, collectives::summarize(group.shape()).max_ranks_per_node);
}

/// Completes the options by what `add_placement` has added.
void settle_placement(const Agreement& agreement, const RankSet& group, PlanOptions& plan) {
  if (group.shape().nodes() == 1 && take_turns(agreement))
    plan.node.pull_limit = std::max(plan.node.pull_limit, NodeOptions::pull_limit_in_turns);
  if (is_large(group)) plan.selection.ranks_per_cache = ranks_per_cache(agreement, group.shape());
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

void check_checksum(const CommunicatorOptions& options) {
  if (!options.plan.checksum) return;
  if (selection_of(options.method) == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "messages of the algorithm " + std::string(mpi) +
                    " have no checksums: choose another algorithm, or leave out the checksum");
  }
  if (options.plan.sockets != Sockets::no) return;
  throw Error(ErrorCode::invalid_argument,
              "messages that go by MPI have no checksums: leave out `sockets no`, or the checksum");
}

void check_connections(const CommunicatorOptions& options) {
  const int connections = options.plan.connections;
  if (connections >= 1 && connections <= PlanOptions::most_connections) return;
  throw Error(ErrorCode::invalid_argument, "the number of connections between two ranks is " +
                                               std::to_string(connections) + ": choose 1 to " +
                                               std::to_string(PlanOptions::most_connections));
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
  add_placement(agreement, group);
  agreement.add_fact("RDMA", has_rdma() ? "yes" : "no");
}

collectives::Selection agreed_selection(const RankSet& group) {
  PlanOptions plan{.selection = collectives::selection_on(group.shape())};
  Agreement agreement;
  add_placement(agreement, group);
  agreement.exchange(group);
  settle_placement(agreement, group, plan);
  return plan.selection;
}

void settle(const RankSet& group, const Agreement& agreement, CommunicatorOptions& options) {
  check_compression(options);
  check_checksum(options);
  check_connections(options);
  const Selection* const wish = selection_of(options.method);
  if (wish == nullptr) return;
  PlanOptions& plan = options.plan;
  plan.selection = selection_on(group.shape(), *wish);
  if (!plan.selection.forced && !options.tuning.empty())
    plan.selection.table = agreed_selection_table(group, options.tuning);
  settle_placement(agreement, group, plan);
  const std::vector<std::string> rdma = agreement.fact("RDMA");
  plan.sockets = sockets_on(group.shape(), plan, std::find(rdma.begin(), rdma.end(), "yes") != rdma.end());
}

std::unique_ptr<Communicator> make_communicator(const RankSet& group, Progress& progress,
                                                CommunicatorOptions& options) {
  auto communicator = options.selection() != nullptr
                          ? make_plan_communicator(group, progress, options.plan)
                          : required_library(group).make_communicator(group, progress, options);
  if (options.compress) return make_compressed(std::move(communicator), *options.compress, progress);
  return communicator;
}

}  // namespace lockstep::backends
