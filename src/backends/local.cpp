// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backends/local.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/plan/plan_communicator.hpp"
#include "backends/plan/thread_medium.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

class LocalGroup {
 public:
  explicit LocalGroup(ClusterShape shape)
      : shape_(std::move(shape)), boxes_(std::make_shared<LetterBoxes>(shape_.ranks())) {}

  [[nodiscard]] const ClusterShape& shape() const { return shape_; }
  [[nodiscard]] const std::shared_ptr<LetterBoxes>& boxes() const { return boxes_; }

  /// This rank's view of what its node shares. The first to ask says how large it is.
  std::shared_ptr<NodeMemory> memory(Rank rank, Bytes control_bytes) {
    const std::scoped_lock lock(mutex_);
    if (memories_.empty()) {
      memories_.resize(static_cast<std::size_t>(shape_.ranks()));
      for (int node = 0; node < shape_.nodes(); ++node) share(shape_.ranks_on(node), control_bytes);
    }
    return memories_[static_cast<std::size_t>(rank.value)];
  }

 private:
  void share(const std::vector<int>& ranks, Bytes control_bytes) {
    const auto views = make_node_memory_of_threads(static_cast<int>(ranks.size()), {.control_bytes = control_bytes});
    for (std::size_t i = 0; i < ranks.size(); ++i) memories_[static_cast<std::size_t>(ranks[i])] = views[i];
  }

  ClusterShape shape_;
  std::shared_ptr<LetterBoxes> boxes_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<NodeMemory>> memories_;  // by rank
};

std::shared_ptr<LocalGroup> make_local_group(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least 1 rank, not " + std::to_string(ranks));
  return make_local_group(ClusterShape{std::vector<int>(static_cast<std::size_t>(ranks))});
}

std::shared_ptr<LocalGroup> make_local_group(ClusterShape shape) {
  return std::make_shared<LocalGroup>(std::move(shape));
}

std::unique_ptr<Communicator> make_local(const std::shared_ptr<LocalGroup>& group, Rank rank, Progress& progress,
                                         const PlanOptions& options) {
  const ClusterShape& shape = group->shape();
  if (rank.value < 0 || rank.value >= shape.ranks()) {
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank.value) + " is not one of the group's " + std::to_string(shape.ranks()));
  }
  std::shared_ptr<NodeMemory> memory;
  if (options.selection ? may_share_memory(*options.selection) : collectives::uses_shared_memory(options.algorithm))
    memory = group->memory(rank, PlanCommunicator::control_bytes(options));
  return std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{.backend = "local", .rank = rank, .shape = shape, .host = "this process"},
      std::make_unique<ThreadMedium>(group->boxes(), rank), std::move(memory), progress, options);
}

}  // namespace lockstep::backends
