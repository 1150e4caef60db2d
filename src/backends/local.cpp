#include "lockstep/backends/local.hpp"

#include <string>
#include <utility>

#include "backends/plan/plan_communicator.hpp"
#include "backends/plan/thread_medium.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

std::shared_ptr<LetterBoxes> make_local_group(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least 1 rank, not " + std::to_string(ranks));
  return std::make_shared<LetterBoxes>(ranks);
}

std::unique_ptr<Communicator> make_local(std::shared_ptr<LetterBoxes> group, Rank rank, Progress& progress,
                                         const PlanOptions& options) {
  const int size = group->ranks();
  if (rank.value < 0 || rank.value >= size) {
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank.value) + " is not one of the group's " + std::to_string(size));
  }
  return std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{.backend = "local", .rank = rank, .size = size, .host = "this process"},
      std::make_unique<ThreadMedium>(std::move(group), rank), progress, options);
}

}  // namespace lockstep::backends
