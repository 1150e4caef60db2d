// SPDX-License-Identifier: Apache-2.0
#include "backends/plan_on_ranks.hpp"

#include "backends/message_library.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "backends/plan/socket_medium.hpp"
#include "backends/plan/socket_partners.hpp"
#include "backends/plan/thread_medium.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/thread_ranks.hpp"

namespace lockstep::backends {
namespace {

/// Shares memory of this rank's node, if the selection may use it. @return null, on every rank, if any node cannot
std::shared_ptr<NodeMemory> share_memory(const RankSet& group, const RankSet& node, PlanOptions& options) {
  if (!may_share_memory(options.selection)) return nullptr;
  std::string why_not;
  auto memory = make_node_memory(
      node, {.control_bytes = PlanCommunicator::control_bytes(options), .notice = options.notice}, why_not);
  if (group.shape().nodes() > 1) why_not = first_reason(group, why_not);
  if (why_not.empty()) return memory;
  if (memory) memory->close();
  const auto& forced = options.selection.forced;
  if (forced && collectives::uses_shared_memory(forced->algorithm)) {
    throw Error(ErrorCode::unsupported, "the ranks of a node cannot share memory (" + why_not +
                                            "); choose an algorithm that sends messages, such as ring")
        .on_every_rank();
  }
  options.selection.shared_memory = false;
  if (options.notice && group.rank() == Rank{0})
    options.notice("the ranks of a node cannot share memory (" + why_not + "): they send messages, which takes longer");
  return nullptr;
}

SocketMedium::Options options_of_sockets(const RankSet& group, std::vector<int> ranks, const PlanOptions& options) {
  return {.me = group.rank(),
          .hosts = group.hosts(),
          .ranks = std::move(ranks),
          .checksum = options.checksum,
          .lanes = options.connections};
}

/// Makes a medium of connections alone, for ranks that nothing else connects. Those to partners on other hosts are made
/// now, which shows at the start whether the hosts reach each other. @throws Error{transport} on every rank
std::unique_ptr<Medium> make_medium_of_sockets(const RankSet& group, const PlanOptions& options) {
  auto connector = std::make_unique<Connector>();
  auto connections = require_connections(
      group, *connector, socket_partners(group.shape(), group.rank(), Sockets::automatic), options.connections);
  return std::make_unique<SocketMedium>(
      nullptr, std::move(connector), std::move(connections),
      options_of_sockets(group, ranks_by_socket(group.shape(), group.rank(), Sockets::everywhere), options));
}

std::unique_ptr<Medium> make_medium(const RankSet& group, PlanOptions& options) {
  if (group.link().shared_by_threads) {
    auto boxes = group.link().share<Mailboxes>([&] { return std::make_shared<Mailboxes>(group.size()); });
    return std::make_unique<ThreadMedium>(std::move(boxes), group.rank());
  }
  const MessageLibrary* const library = library_of(group);
  if (library == nullptr) return make_medium_of_sockets(group, options);
  auto messages = library->make_medium(group, PlanCommunicator::channels(options));
  if (options.sockets == Sockets::no) return messages;
  auto connector = std::make_unique<Connector>();
  auto connections = connect_hosts(group, *connector, options);
  if (!connections) options.sockets = Sockets::no;
  if (!connections) return messages;
  return std::make_unique<SocketMedium>(
      std::move(messages), std::move(connector), *std::move(connections),
      options_of_sockets(group, ranks_by_socket(group.shape(), group.rank(), options.sockets), options));
}

}  // namespace

Sockets sockets_on(const ClusterShape& shape, const PlanOptions& wish, bool is_rdma_anywhere) {
  if (wish.sockets == Sockets::everywhere) return wish.sockets;
  const bool leave_to_rdma = wish.sockets == Sockets::automatic && is_rdma_anywhere && !wish.checksum;
  return shape.nodes() == 1 || leave_to_rdma ? Sockets::no : wish.sockets;
}

std::optional<std::vector<Connection>> connect_hosts(const RankSet& group, Connector& connector,
                                                     const PlanOptions& options) {
  std::string why_not;
  auto connections = connect_ranks(group, connector, socket_partners(group.shape(), group.rank(), options.sockets),
                                   why_not, options.connections);
  if (connections) return connections;
  if (options.checksum || options.sockets != Sockets::automatic) {
    throw Error(ErrorCode::unsupported,
                "the ranks cannot be connected by sockets (" + why_not + "); " +
                    (options.checksum ? "leave out the checksum" : "choose sockets auto or no") +
                    ", so that messages between hosts go by MPI")
        .on_every_rank();
  }
  if (options.notice && group.rank() == Rank{0})
    options.notice("messages between hosts go by MPI, which takes longer than sockets of lockstep's own (" + why_not +
                   "); sockets no leaves out the attempt");
  return std::nullopt;
}

std::unique_ptr<Communicator> make_plan_communicator(const RankSet& group, Progress& progress, PlanOptions& options) {
  RankSet node = split_by_node(group, group.shape());
  std::shared_ptr<NodeMemory> memory = share_memory(group, node, options);
  auto control = make_control_channel(group, group.shape(), node);
  node.close();
  auto communicator =
      std::make_unique<PlanCommunicator>(PlanCommunicator::Identity{.backend = "plan",
                                                                    .rank = group.rank(),
                                                                    .shape = group.shape(),
                                                                    .hostname = group.host(),
                                                                    .control = std::move(control)},
                                         make_medium(group, options), std::move(memory), progress, options);
  communicator->enlist();
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::backends
