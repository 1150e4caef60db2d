// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/plan/options.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "backends/plan/thread_medium.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/communicator.hpp"
#include "platform/ranks/thread_ranks.hpp"

namespace lockstep::backends {

/// What ranks share whose communicators are made one after the other, on one thread: nothing here waits for another
/// rank, as `from_threads` does.
class LocalGroup {
 public:
  explicit LocalGroup(ClusterShape shape)
      : shape_(std::move(shape)),
        boxes_(std::make_shared<Mailboxes>(shape_.ranks())),
        channels_made_(static_cast<std::size_t>(shape_.ranks())) {}

  [[nodiscard]] const ClusterShape& shape() const { return shape_; }
  [[nodiscard]] const std::shared_ptr<Mailboxes>& boxes() const { return boxes_; }

  /// Returns this rank's view of its node's shared memory. The first rank that asks determines the size.
  std::shared_ptr<NodeMemory> memory(Rank rank, Bytes control_bytes) {
    const std::scoped_lock lock(mutex_);
    if (memories_.empty()) memories_ = share(control_bytes);
    return memories_[static_cast<std::size_t>(rank.value)];
  }

  /// Returns this rank's end of the control channel of its next communicator.
  /// @throws Error{mismatch} if its terms differ from those of the first rank, and reports that to the other ranks
  std::shared_ptr<ControlChannel> next_control(Rank rank, std::string host, const std::vector<Term>& terms) {
    const std::scoped_lock lock(mutex_);
    const auto me = static_cast<std::size_t>(rank.value);
    const std::size_t number = channels_made_[me]++;
    if (number == channels_.size()) {
      channels_.push_back(
          {share(ControlChannel::control_bytes), std::make_shared<ThreadMailboxes>(shape_.ranks()), rank, terms});
    }
    const Channel& channel = channels_[number];
    auto control = std::make_shared<ControlChannel>(
        ControlChannel::Member{rank, shape_.ranks(), std::move(host), shape_.ranks_on(shape_.node_of_rank[me]), {}},
        channel.words[me], shape_.nodes() > 1 ? std::make_unique<ThreadControlLink>(channel.mailboxes, rank) : nullptr);
    const std::string different = differences(terms, channel.terms, rank, channel.first);
    if (different.empty()) return control;
    control->raise(ErrorCode::mismatch, different, {channel.first.value});
    control->tell_now();
    throw Error(ErrorCode::mismatch, different, {.rank = rank.value, .peers = {channel.first.value}});
  }

 private:
  struct Channel {
    std::vector<std::shared_ptr<NodeMemory>> words;  // by rank
    std::shared_ptr<ThreadMailboxes> mailboxes;
    Rank first;  // the first rank to come, whose terms are below
    std::vector<Term> terms;
  };

  /// Makes shared memory for each node. @return the views by rank
  [[nodiscard]] std::vector<std::shared_ptr<NodeMemory>> share(Bytes control_bytes) const {
    std::vector<std::shared_ptr<NodeMemory>> memories(static_cast<std::size_t>(shape_.ranks()));
    for (int node = 0; node < shape_.nodes(); ++node) {
      const std::vector<int> ranks = shape_.ranks_on(node);
      const auto views = make_node_memory_of_threads(static_cast<int>(ranks.size()), {.control_bytes = control_bytes});
      for (std::size_t i = 0; i < ranks.size(); ++i) memories[static_cast<std::size_t>(ranks[i])] = views[i];
    }
    return memories;
  }

  ClusterShape shape_;
  std::shared_ptr<Mailboxes> boxes_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<NodeMemory>> memories_;  // by rank
  std::vector<Channel> channels_;                      // one for each communicator, in the order of creation
  std::vector<std::size_t> channels_made_;             // by rank
};

/// Makes the state of threads that act as ranks of several nodes: only the threads of one node share memory, the others
/// exchange messages.
inline std::shared_ptr<LocalGroup> make_local_group(ClusterShape shape) {
  return std::make_shared<LocalGroup>(std::move(shape));
}

/// Makes the state shared by the threads of one process that act as ranks.
/// @throws Error{invalid_argument} unless there is a rank
inline std::shared_ptr<LocalGroup> make_local_group(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least 1 rank, not " + std::to_string(ranks));
  return make_local_group(ClusterShape{std::vector<int>(static_cast<std::size_t>(ranks))});
}

/// Makes one thread's communicator in a group: lockstep's own algorithms, with memory copies for messages. Each thread
/// has a Progress of its own. All threads pass the same options.
/// @throws Error{invalid_argument} if `rank` is not in the group or an option is out of range; Error{mismatch} that
///         names the differences from the first rank's options, on a rank that comes later. The other ranks learn of it
///         as of any failure, because no rank waits for another here.
inline std::unique_ptr<Communicator> make_local(const std::shared_ptr<LocalGroup>& group, Rank rank, Progress& progress,
                                                const PlanOptions& options = {}) {
  const ClusterShape& shape = group->shape();
  if (rank < 0 || rank >= shape.ranks()) {
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank.value) + " is not one of the group's " + std::to_string(shape.ranks()));
  }
  const std::string host = "this process";
  auto control = group->next_control(rank, host, terms_of(options));
  PlanOptions here = options;
  here.selection = selection_on(shape, options.selection);
  std::shared_ptr<NodeMemory> memory;
  if (may_share_memory(here.selection)) memory = group->memory(rank, PlanCommunicator::control_bytes(here));
  auto communicator = std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{
          .backend = "local", .rank = rank, .shape = shape, .hostname = host, .control = std::move(control)},
      std::make_unique<ThreadMedium>(group->boxes(), rank), std::move(memory), progress, here);
  communicator->enlist();
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::backends
