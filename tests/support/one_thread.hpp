// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "backends/local.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// The ranks of a cluster, all on one thread. Who waits lets the others go on; where nobody can, the clock does, so
/// that a deadline of minutes is over at once.
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
  /// So much time passes without anybody being polled.
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

  std::vector<std::unique_ptr<Progress>> progresses;  // by rank, as the others
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<bool> polled;       ///< false: the rank does not go on while others wait
  std::chrono::nanoseconds step;  ///< by which the clock goes on where nobody moves

 private:
  Clock::time_point now_;
  std::shared_ptr<backends::LocalGroup> group_;
};

}  // namespace lockstep
