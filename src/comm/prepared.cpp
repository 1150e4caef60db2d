// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/prepared.hpp"

#include "lockstep/base/error.hpp"

namespace lockstep {

void Prepared::start(Queue queue) {
  if (started_ != nullptr && state_of(*started_) == Operation::State::pending) {
    throw Error(ErrorCode::invalid_argument,
                "a prepared operation was started while it was still under way: wait for it first, or prepare another");
  }
  started_ = nullptr;
  started_ = &preparation_->start(queue);
}

}  // namespace lockstep
