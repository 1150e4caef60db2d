// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "lockstep/comm/progress.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// What is left of a communicator that was destroyed before it was closed: sends what that rank has to tell, which a
/// destructor may not, at the next poll of anything of the rank.
class LastWords final : public ProgressSource {
 public:
  explicit LastWords(std::shared_ptr<ControlChannel> control) : control_(std::move(control)) {}

  /// Lets them be said, where there are messages to send. @return what has to be kept as long as `progress`
  static std::shared_ptr<LastWords> leave(Progress& progress, std::shared_ptr<ControlChannel> control) {
    auto words = std::make_shared<LastWords>(std::move(control));
    if (words->control_->has_post()) progress.add(*words);
    return words;
  }

  bool progress() noexcept override { return false; }
  [[nodiscard]] bool idle() const noexcept override { return are_said_; }
  bool look_round(Clock::time_point /*now*/) noexcept override {
    if (std::exchange(are_said_, true)) return false;
    try {
      control_->tend();
    } catch (const std::exception&) {  // then nobody can be told
    }
    return true;
  }

 private:
  std::shared_ptr<ControlChannel> control_;
  bool are_said_ = false;
};

}  // namespace lockstep::backends
