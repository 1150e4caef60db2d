// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "comm/back_end.hpp"

namespace lockstep::ddp {

/// The communicators and split groups that the abort of a group reaches.
class AbortReach : public std::enable_shared_from_this<AbortReach> {
 public:
  /// Aborts this communicator, too, until it is destroyed.
  void add(Communicator& communicator) {
    const std::scoped_lock lock(mutex_);
    communicators_.push_back(&communicator);
    back_end_of(communicator).when_destroyed([reach = shared_from_this(), &communicator] {
      reach->remove(communicator);
    });
  }
  void add(const std::shared_ptr<AbortReach>& part) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(parts_, [](const auto& other) { return other.expired(); });
    parts_.push_back(part);
  }

  /// Aborts all communicators. Any thread may call it.
  void abort(std::string_view why) noexcept {
    const std::scoped_lock lock(mutex_);
    for (Communicator* const communicator : communicators_) communicator->abort(why);
    for (const auto& part : parts_)
      if (const auto reach = part.lock()) reach->abort(why);
  }

 private:
  void remove(const Communicator& communicator) {
    const std::scoped_lock lock(mutex_);
    std::erase(communicators_, &communicator);
  }

  std::mutex mutex_;
  std::vector<Communicator*> communicators_;
  std::vector<std::weak_ptr<AbortReach>> parts_;
};

}  // namespace lockstep::ddp
