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

/// All ranks wait and nothing will end that.
class Stuck : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs ranks in one thread and decides, by a seed, who goes on and for how far. Is their clock as well: time passes
/// only while they wait.
class Scheduler final : public TimeSource {
 public:
  /// How much time passes.
  struct Pace {
    std::chrono::microseconds yield{50};  ///< as a rank gives way
    std::chrono::microseconds idle{0};    ///< as all ranks have had nothing to do for long
  };
  Scheduler(std::uint64_t seed, const Pace& pace);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() override;

  /// One more rank. @pre run() has not been called
  void add(std::function<void()> body);
  /// Until all have ended, or one has thrown: then rethrows, and the others are never gone on with.
  /// @throws Stuck if nothing ends any more
  void run();

  /// A rank has ended something: whoever waited may have something to do.
  void note_progress() {
    patience_ = 0;
    std::fill(idle_.begin(), idle_.end(), 0);
  }
  /// Another rank may go on here.
  void preempt();
  /// The rank that calls this is never gone on with.
  [[noreturn]] void stop();
  /// The number of everything that was decided: equal for equal runs.
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
  std::vector<int> idle_;  ///< how often each has yielded since something happened
  std::size_t current_ = 0;
  std::uint64_t quantum_ = 0;
  int patience_ = 0;  ///< how often all have been idle since something ended
  Clock::time_point now_{};
  std::uint64_t trace_ = 0;
  std::exception_ptr error_;
};

}  // namespace lockstep::schedules
