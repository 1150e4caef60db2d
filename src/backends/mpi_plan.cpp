// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_plan.hpp"

#include <optional>
#include <string>
#include <utility>

#include "backends/plan/message_medium.hpp"
#include "backends/plan/options.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "backends/plan/socket_medium.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/agreement.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/make_node_memory.hpp"

namespace lockstep::backends {

std::shared_ptr<NodeMemory> share_memory(const MpiGroup& group, Bytes control_bytes,
                                         const std::function<void(std::string_view)>& notice, std::string& why_not) {
  std::optional<MpiGroup> node =
      group.split(group.shape().node_of_rank[static_cast<std::size_t>(group.rank().value)], group.rank().value);
  auto memory = make_node_memory(*node, {.control_bytes = control_bytes, .notice = notice}, why_not);
  node->close();
  for (const std::string& reason : all_gather_strings(group, memory ? "" : why_not)) {
    if (reason.empty()) continue;
    why_not = reason;
    if (memory) memory->close();
    return nullptr;
  }
  return memory;
}

bool is_shared_memory_demanded(const collectives::Selection& selection) {
  return selection.forced && collectives::uses_shared_memory(selection.forced->algorithm);
}

void go_by_messages(const MpiGroup& group, collectives::Selection& selection, const std::string& why,
                    const std::function<void(std::string_view)>& notice) {
  selection.shared_memory = false;
  if (!notice || group.rank() != Rank{0}) return;
  notice("the ranks of a node cannot share memory (" + why + "): they send messages, which takes longer");
}

void settle_shared_memory(const MpiGroup& group, collectives::Selection& selection,
                          const std::function<void(std::string_view)>& notice) {
  if (is_shared_memory_demanded(selection) || !may_share_memory(selection)) return;
  std::string why_not;
  if (const auto memory = share_memory(group, Bytes{0}, notice, why_not)) return memory->close();
  go_by_messages(group, selection, why_not, notice);
}

std::optional<std::vector<Connection>> connect_hosts(const MpiGroup& group, Sockets sockets,
                                                     const std::function<void(std::string_view)>& notice) {
  const bool same_host = sockets == Sockets::everywhere;
  if (sockets == Sockets::no || (group.shape().nodes() == 1 && !same_host)) return std::nullopt;
  if (sockets == Sockets::automatic && has_rdma(group)) return std::nullopt;
  std::string why_not;
  auto connections = connect_ranks(group, socket_partners(group.shape(), group.rank(), same_host), why_not);
  if (connections) return connections;
  if (sockets != Sockets::automatic) {
    throw Error(ErrorCode::unsupported, "the ranks cannot be connected by sockets (" + why_not +
                                            "); choose sockets auto or no, with which small messages go by MPI")
        .on_every_rank();
  }
  if (notice && group.rank() == Rank{0})
    notice("small messages between hosts go by MPI, which takes longer than sockets of lockstep's own (" + why_not +
           "); sockets no leaves out the attempt");
  return std::nullopt;
}

Sockets settle_sockets(const MpiGroup& group, Sockets sockets, const std::function<void(std::string_view)>& notice) {
  if (sockets != Sockets::automatic) return sockets;
  return connect_hosts(group, sockets, notice) ? sockets : Sockets::no;
}

namespace {

std::unique_ptr<Medium> make_medium(const MpiGroup& group, const PlanOptions& options) {
  auto messages = std::make_unique<MessageMedium>(group, PlanCommunicator::channels(options));
  auto connections = connect_hosts(group, options.sockets, options.notice);
  if (!connections) return messages;
  return std::make_unique<SocketMedium>(std::move(messages), *std::move(connections), group.hosts(),
                                        options.socket_limit);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options) {
  require_equal(group, settings_of("mpi_plan", options));
  PlanOptions able = options;
  able.selection = selection_on(group.shape(), options.selection);
  std::shared_ptr<NodeMemory> memory;
  if (may_share_memory(able.selection)) {
    std::string why_not;
    memory = share_memory(group, PlanCommunicator::control_bytes(able), options.notice, why_not);
    if (!memory && is_shared_memory_demanded(able.selection)) {
      throw Error(ErrorCode::unsupported, "the ranks of a node cannot share memory (" + why_not +
                                              "); choose an algorithm that sends messages, such as ring")
          .on_every_rank();
    }
    if (!memory) go_by_messages(group, able.selection, why_not, options.notice);
  }
  auto communicator = std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{.backend = "mpi_plan",
                                 .rank = group.rank(),
                                 .shape = group.shape(),
                                 .hostname = group.host(),
                                 .control = make_control_channel(group, group.shape())},
      make_medium(group, able), std::move(memory), progress, able);
  communicator->enlist();
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::backends
