// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "platform/ranks/rank_link.hpp"

namespace lockstep {

/// Names the task that the ranks of a set have in common while this object exists. Errors of ranks that wait in vain
/// name this task. Phases may be nested.
class Phase {
 public:
  using Kind = Tasks::Kind;
  using Seconds = Tasks::Seconds;

  /// @param what   a gerund phrase: "loading the data set mnist"
  /// @param extra  time that the work is known to take on one rank, in addition to the set's deadline
  Phase(const RankSet& set, std::string what, Kind kind = Kind::exchange, Seconds extra = Seconds(0))
      : tasks_(set.link().tasks) {
    if (tasks_ != nullptr) tasks_->begin(std::move(what), kind, extra);
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase() {
    if (tasks_ != nullptr) tasks_->end();
  }

 private:
  std::shared_ptr<Tasks> tasks_;
};

/// @throws Error{invalid_argument} unless the deadline is positive and at most 10⁹ s, so that clocks can add it
void require_deadline(std::chrono::duration<double> deadline);

}  // namespace lockstep
