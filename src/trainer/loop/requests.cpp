// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/requests.hpp"

#include <chrono>

#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

int Requests::wants_to_stop() const {
  const int request = number_of(stop_);
  const bool has_limit = stop_time_ != Clock::time_point::max();
  return request == 0 && has_limit && Clock::now() >= stop_time_ ? stopped_by_time : request;
}

bool Requests::wants_to_save() {
  const int requests = number_of(save_requests_);
  if (requests == saves_heard_) return false;
  if (Clock::now() >= same_save_until_) return true;
  saves_heard_ = requests;
  return false;
}

Requests::Agreement Requests::agree(bool reports) {
  std::int64_t wishes[] = {wants_to_stop(), wants_to_save() ? 1 : 0, reports ? 1 : 0};
  group_->control().all_reduce(std::span(wishes), std::span(wishes), ReduceOp::max, Queue::host(), "requests").wait();
  if (wishes[1] != 0) {
    save_is_due_ = true;
    if (save_requests_ != nullptr) saves_heard_ = number_of(save_requests_);
    same_save_until_ = Clock::now() + std::chrono::seconds(1);
  }
  return {.stopped_by = static_cast<int>(wishes[0]), .reports = wishes[2] != 0};
}

}  // namespace lockstep::trainer
