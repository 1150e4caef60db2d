// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

/// Requests to stop and to save, which a signal, the time or the program makes on any rank, and which all ranks follow
/// after the same step.
class Requests {
 public:
  /// @param group  outlives this
  explicit Requests(ProcessGroup& group) : group_(&group) {}

  void stop_on(const std::atomic<int>& request) { stop_ = &request; }
  void stop_at(Clock::time_point time) { stop_time_ = time; }
  void save_on(const std::atomic<int>& requests) {
    save_requests_ = &requests;
    saves_heard_ = number_of(save_requests_);
  }

  /// Returns the request of this rank to stop, or `stopped_by_time`; 0: none.
  [[nodiscard]] int wants_to_stop() const {
    const int request = number_of(stop_);
    const bool has_limit = stop_time_ != Clock::time_point::max();
    return request == 0 && has_limit && Clock::now() >= stop_time_ ? stopped_by_time : request;
  }
  /// Whether this rank wants a checkpoint. It forgets requests that count as the same as the one before.
  [[nodiscard]] bool wants_to_save() {
    const int requests = number_of(save_requests_);
    if (requests == saves_heard_) return false;
    if (Clock::now() >= same_save_until_) return true;
    saves_heard_ = requests;
    return false;
  }

  /// What all ranks do.
  struct Agreement {
    int stopped_by = 0;  ///< the largest request to stop
    bool reports = false;
  };
  /// Called on all ranks when they have learned that one of them has a request. Collective.
  /// @param reports  whether this rank wants a report of slow ranks
  Agreement agree(bool reports) {
    std::int64_t wishes[] = {wants_to_stop(), wants_to_save() ? 1 : 0, reports ? 1 : 0};
    group_->control().all_reduce(std::span(wishes), std::span(wishes), ReduceOp::max, Queue::host(), "requests").wait();
    if (wishes[1] != 0) {
      save_is_due_ = true;
      if (save_requests_ != nullptr) saves_heard_ = number_of(save_requests_);
      same_save_until_ = Clock::now() + std::chrono::seconds(1);
    }
    return {.stopped_by = static_cast<int>(wishes[0]), .reports = wishes[2] != 0};
  }

  /// Whether the ranks have agreed to save, and have not saved since.
  [[nodiscard]] bool save_is_due() const { return save_is_due_; }
  void has_saved() { save_is_due_ = false; }
  /// The number of requests to save that were followed or count as followed.
  [[nodiscard]] int saves_heard() const { return saves_heard_; }
  void set_saves_heard(int saves) { saves_heard_ = saves; }

 private:
  static int number_of(const std::atomic<int>* requests) {
    return requests == nullptr ? 0 : requests->load(std::memory_order_relaxed);
  }

  ProcessGroup* group_;
  const std::atomic<int>* stop_ = nullptr;
  Clock::time_point stop_time_ = Clock::time_point::max();
  const std::atomic<int>* save_requests_ = nullptr;
  int saves_heard_ = 0;
  Clock::time_point same_save_until_{};  // until then requests count as the same
  bool save_is_due_ = false;
};

}  // namespace lockstep::trainer
