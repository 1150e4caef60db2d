// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/operation.hpp"
#include "lockstep/comm/progress.hpp"
#include "support/local.hpp"

namespace lockstep {

/// All ranks of a cluster on one thread. A rank that waits lets the others run. If none can progress, the clock
/// advances, so a deadline of minutes passes at once.
class OneThread final : public TimeSource {
 public:
  explicit OneThread(const ClusterShape& shape, const backends::PlanOptions& options = {},
                     std::chrono::nanoseconds step_of_time = std::chrono::milliseconds(5),
                     const Progress::Notice& notice = nullptr)
      : step(step_of_time), group_(backends::make_local_group(shape)) {
    const auto ranks = static_cast<std::size_t>(shape.ranks());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      progresses.push_back(std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0}, this, notice));
      communicators.push_back(backends::make_local(group_, Rank{static_cast<int>(rank)}, *progresses[rank], options));
    }
    polled.assign(ranks, true);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() override = default;

  Communicator& operator[](int rank) { return *communicators[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(communicators.size()); }

  [[nodiscard]] Clock::time_point now() override { return now_; }
  /// Lets time pass without polling any rank.
  void pass(std::chrono::nanoseconds time) { now_ += time; }
  void yield() override {
    bool moved = false;
    for (std::size_t rank = 0; rank < progresses.size(); ++rank) moved |= polled[rank] && progresses[rank]->poll();
    if (!moved) now_ += step;
  }
  bool sleep(ProgressSource& source, std::chrono::nanoseconds /*at_most*/) override {
    const bool slept = source.sleep({});
    yield();
    return slept;
  }

  std::vector<std::unique_ptr<Progress>> progresses;  // by rank, like the following
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<bool> polled;       ///< false: the rank does not progress while others wait
  std::chrono::nanoseconds step;  ///< how far the clock advances if no rank progresses

 private:
  Clock::time_point now_;
  std::shared_ptr<backends::LocalGroup> group_;
};

}  // namespace lockstep
