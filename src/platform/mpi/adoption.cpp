// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <cstddef>
#include <numeric>

#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/wait_monitor.hpp"
#include "platform/node_memory/node_file.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep {
namespace {

std::vector<int> all_ranks(MPI_Comm communicator) {
  int size = 0;
  LOCKSTEP_MPI(MPI_Comm_size(communicator, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

constexpr int largest_tag = 32767;  // every MPI allows it, and a program hardly uses it

/// Returns when all ranks have called it, or throws an error that names those that have not. It uses the program's own
/// communicator, because there is no other yet.
void await_start(MPI_Comm theirs, std::chrono::duration<double> deadline) {
  WaitMonitor monitor(theirs, largest_tag, nullptr);
  monitor.begin("starting together", Tasks::Kind::exchange);
  MPI_Request barrier = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Ibarrier(theirs, &barrier));
  monitor.wait(barrier, {0, all_ranks(theirs), deadline});
}

/// Returns the number of the node of each rank of a communicator. Collective.
ClusterShape discover_shape(const RankSet& all) {
  MPI_Comm node = MPI_COMM_NULL;
  barrier(all);
  {
    const BlockingCall call(all, "MPI_Comm_split_type");
    LOCKSTEP_MPI(MPI_Comm_split_type(communicator(all), MPI_COMM_TYPE_SHARED, all.rank().value, MPI_INFO_NULL, &node));
  }
  // The number of a node's first rank identifies the node.
  const int leader = ranks_in(communicator(all), node).front();
  LOCKSTEP_MPI(MPI_Comm_free(&node));
  const auto leaders = all_gather_numbers(all, leader);
  return number_nodes(std::vector<int>(leaders.begin(), leaders.end()));
}

}  // namespace

RankSet group_beside(MPI_Comm theirs, std::chrono::duration<double> deadline, const MessageCarrier& messages,
                     std::shared_ptr<Watchdog> watchdog) {
  require_deadline(deadline);
  await_start(theirs, deadline);
  MPI_Comm own = MPI_COMM_NULL;
  {
    const BlockingCall call(watchdog, "MPI_Comm_split");
    // MPI_Comm_dup would call the program's attribute copy functions. Only the new communicators return errors.
    LOCKSTEP_MPI(MPI_Comm_split(theirs, 0, 0, &own));
  }
  return group_of(own, deadline, messages, std::move(watchdog));
}

RankSet group_of(MPI_Comm own, std::chrono::duration<double> deadline, const MessageCarrier& messages,
                 std::shared_ptr<Watchdog> watchdog) {
  LOCKSTEP_MPI(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN));
  auto members = std::make_shared<RankSet::Members>();
  auto link = std::make_unique<MpiLink>(own, members, nullptr);
  link->messages = &messages;
  link->node_files = std::make_shared<NodeFiles>();
  link->deadline = deadline;
  link->original_ranks = all_ranks(own);
  MPI_Comm questions = MPI_COMM_NULL;
  {
    const BlockingCall call(watchdog, "MPI_Comm_dup");
    LOCKSTEP_MPI(MPI_Comm_dup(own, &questions));
  }
  const auto monitor = std::make_shared<WaitMonitor>(questions, 0, std::move(watchdog));
  link->watch(monitor);
  RankSet group(std::move(link));
  // An error of the exchange below names this host.
  members->hosts.resize(static_cast<std::size_t>(group.size()));
  members->hosts[static_cast<std::size_t>(group.rank().value)] = processor_name();
  const Phase phase(group, "starting up");
  members->hosts = group.exchange(processor_name());
  monitor->set_hosts(members->hosts);
  members->shape = discover_shape(group);
  return group;
}

}  // namespace lockstep
