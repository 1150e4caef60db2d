// SPDX-License-Identifier: Apache-2.0
// This file implements how the ranks of a set are watched.
#include "platform/ranks/watch.hpp"

#include <algorithm>

#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/watchdog/watchdog.hpp"

namespace lockstep {

void share_records(const RankSet& all, const RankSet& node) {
  const Phase phase(all, "starting up");
  const std::shared_ptr<Watchdog>& watchdog = all.link().tasks->watchdog();
  constexpr const char* none = "-";
  std::vector<std::string> addresses = all.link().all_gather(watchdog == nullptr ? none : watchdog->address());
  if (std::all_of(addresses.begin(), addresses.end(), [](const auto& a) { return a == none; })) return;
  for (std::string& address : addresses)
    if (address == none) address.clear();
  const NodeMemoryOptions options{.control_bytes = {sizeof(FlightRecorder)}};
  std::string why_not;
  std::shared_ptr<NodeMemory> memory = make_node_memory(node, options, why_not);
  const int rank = all.rank().value;
  Watchdog::Membership membership{.rank = rank, .job = {all.hosts(), std::move(addresses)}};
  const int own_node = all.shape().node_of_rank[static_cast<std::size_t>(rank)];
  membership.node = memory == nullptr ? std::vector<int>{rank} : all.shape().ranks_on(own_node);
  if (memory == nullptr) memory = make_node_memory_of_threads(1, options).front();
  for (int i = 0; i < memory->size(); ++i)
    membership.records.emplace_back(memory, reinterpret_cast<FlightRecorder*>(memory->control(i)));
  membership.own = membership.records[static_cast<std::size_t>(memory->rank())];
  // The next node's rank in the same place keeps the last heartbeat, in case this node is cut off.
  if (all.shape().nodes() > 1) {
    const std::vector<int> next = all.shape().ranks_on((own_node + 1) % all.shape().nodes());
    membership.receiver_of_heartbeats = next[static_cast<std::size_t>(node.rank().value) % next.size()];
  }
  if (watchdog != nullptr) watchdog->join(std::move(membership));
  all.link().records = std::move(memory);
}

void leave_records(RankSet::Link& link) {
  if (link.records == nullptr) return;
  if (link.tasks->watchdog() != nullptr) link.tasks->watchdog()->leave();
  if (link.records.use_count() == 1) link.records->close();  // otherwise a group outlives the set, and uses its record
  link.records.reset();
}

void RankSet::watch(WatchOptions options) const {
  if (link().shared_by_threads) {
    throw Error(ErrorCode::unsupported,
                "ranks that are threads of one process cannot be watched: a watchdog shows the stack of a process",
                {.rank = rank_.value, .host = host()})
        .on_every_rank();
  }
  if (link().tasks->watchdog() != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "these ranks are watched already: a World with on_stuck watches them, or RankSet::watch was called "
                "before",
                {.rank = rank_.value, .host = host()});
  }
  if (!(options.late_after.count() > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "late_after is " + std::to_string(options.late_after.count()) + " s: choose a time of more than 0 s",
                {.rank = rank_.value, .host = host()});
  }
  link().tasks->set_watchdog(std::make_shared<Watchdog>(Watchdog::Options{.deadline = link().deadline,
                                                                          .is_local = shape().nodes() == 1,
                                                                          .on_stuck = std::move(options.on_stuck),
                                                                          .on_late = std::move(options.on_late),
                                                                          .late_after = options.late_after}));
  RankSet node = split_by_node(*this, shape());
  share_records(*this, node);
  node.close();
}

std::string RankSet::explain_ranks() const {
  const std::shared_ptr<Watchdog>& watchdog = link().tasks->watchdog();
  return watchdog == nullptr ? std::string() : watchdog->explain_job();
}

}  // namespace lockstep
