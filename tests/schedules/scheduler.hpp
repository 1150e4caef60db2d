// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "lockstep/comm/progress.hpp"
#include "schedules/fiber.hpp"

namespace lockstep::schedules {

/// Thrown if all ranks wait and nothing will end that.
class Stuck : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs ranks in one thread. A seed decides which rank continues, and for how long. It is also their clock: time passes
/// only while they wait.
class Scheduler final : public TimeSource {
 public:
  /// How much time passes.
  struct Pace {
    std::chrono::microseconds yield{50};  ///< when a rank yields
    std::chrono::microseconds idle{0};    ///< when all ranks have been idle for long
  };
  Scheduler(std::uint64_t seed, const Pace& pace);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() override;

  /// Adds a rank. @pre run() has not been called
  void add(std::function<void()> body);
  /// Runs until all ranks have ended, or one has thrown. In that case it rethrows, and the others never continue.
  /// @throws Stuck if no rank can end any more
  void run();

  /// Notes that a rank has completed something, so that a rank that waited may have work.
  void note_progress() {
    patience_ = 0;
    std::fill(idle_.begin(), idle_.end(), 0);
  }
  /// Allows another rank to continue here.
  void preempt();
  /// Stops the calling rank for good.
  [[noreturn]] void stop();
  /// Returns a hash of all decisions; equal runs have equal ones.
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

  [[nodiscard]] Clock::time_point now() override { return now_; }
  void yield() override;
  bool sleep(ProgressSource& source, std::chrono::nanoseconds at_most) override;

 private:
  enum class Strategy { even, one_is_slow, by_priority };

  [[nodiscard]] bool has_ended(std::size_t rank) const { return ranks_[rank]->done() || is_stopped_[rank]; }
  [[nodiscard]] bool all_have_ended() const;
  [[nodiscard]] std::size_t choose();
  [[nodiscard]] bool is_worth_a_turn(std::size_t rank) const;
  [[nodiscard]] std::vector<std::size_t> worth_a_turn();
  void draw_quantum();

  std::mt19937_64 random_;
  Pace pace_;
  Strategy strategy_;
  std::uint64_t mean_quantum_;
  std::size_t slow_ = 0;
  std::vector<std::uint64_t> priorities_;
  std::vector<std::unique_ptr<Fiber>> ranks_;
  std::vector<bool> is_stopped_;
  std::vector<int> idle_;  ///< how often each rank has yielded since the last progress
  std::size_t current_ = 0;
  std::uint64_t quantum_ = 0;
  int patience_ = 0;  ///< how often all ranks have been idle since the last progress
  Clock::time_point now_{};
  std::uint64_t trace_ = 0;
  std::exception_ptr error_;
};

}  // namespace lockstep::schedules
