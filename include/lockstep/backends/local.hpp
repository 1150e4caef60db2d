#pragma once

#include <memory>

#include "lockstep/backends/plan/options.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

class LetterBoxes;

/// What the threads of one process that act as ranks share.
std::shared_ptr<LetterBoxes> make_local_group(int ranks);

/// One thread's end of a group: lockstep's own algorithms, with memory copies for messages. Each thread has a Progress
/// of its own.
/// @throws Error{invalid_argument} if `rank` is not in the group or an option is out of range
std::unique_ptr<Communicator> make_local(std::shared_ptr<LetterBoxes> group, Rank rank, Progress& progress,
                                         const PlanOptions& options = {});

}  // namespace lockstep::backends
