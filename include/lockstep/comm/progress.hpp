// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/observer.hpp"

namespace lockstep {

class FlightRecorder;
class Operation;
class ProgressSource;

/// The clock of a rank. A test can pass its own, so that all ranks run on one thread and deadlines pass without
/// waiting.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  /// The current time. It never decreases.
  [[nodiscard]] virtual Clock::time_point now() = 0;
  /// Replaces yielding the processor between two polls without progress.
  virtual void yield() = 0;
  /// Replaces `source.sleep(at_most)`, and returns its result.
  virtual bool sleep(ProgressSource& source, std::chrono::nanoseconds at_most) = 0;
};

/// How a rank waits. First it spins, then it yields the core between polls. At last it sleeps, if the peers that it
/// waits for share memory with it and will wake it. With more ranks than cores, a spinning rank keeps the rank that it
/// waits for from running; so either all ranks of a node should spin, or none.
struct WaitPolicy {
  static constexpr int always = std::numeric_limits<int>::max();

  int spins_before_yield = 250;    ///< polls without progress before each further one yields the core; 0: yields at
                                   ///< once. So many take some microseconds, about as long as two switches of threads.
  int yields_before_sleep = 2000;  ///< number of yields before it sleeps
  /// Whether a rank that spins without success spins less from then on, until spinning succeeds again, and hardly at
  /// all once a yield has given its core to another thread for a moment. Ranks of two nodes that are the same machine,
  /// such as namespaces or containers, find out in this way that they share its cores. Beside a thread that keeps the
  /// core for long, a rank spins up to eight times as often.
  bool adaptive = true;
};

/// The names of the wait policies that a user can select: "auto", "spin", "yield" and "sleep".
std::span<const std::string_view> wait_names();
/// @param spins_advised  number of spins for "auto"; `NodeView` derives it from the numbers of cores and ranks
/// @pre `name` is one of wait_names()
WaitPolicy make_wait_policy(std::string_view name, int spins_advised);

/// The operations of one rank over all its communicators. Waiting for one operation advances all of them, so no order
/// of waiting can deadlock. Each rank has one Progress and passes it to each communicator; it is never global. One
/// thread uses it, its owner. A `ProgressThread` may help the owner, and a `Turn` lends the Progress to another thread.
class Progress {
 public:
  /// Keeps the progress thread away from the sources and their data while it exists. Code that accesses them otherwise
  /// than by `poll` and `wait` holds one: for instance a back end during a submission. The owner may nest them. It
  /// costs one branch if there is no progress thread.
  class Exclusive {
   public:
    /// Waits until the progress thread, if there is one, has ended its round of polling.
    explicit Exclusive(Progress& progress) : progress_(progress.shared_ ? &progress : nullptr) {
      if (progress_ != nullptr) progress_->enter();
    }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    ~Exclusive() {
      if (progress_ != nullptr) progress_->leave();
    }

   private:
    Progress* progress_;
  };

  /// Makes the calling thread the owner while it exists, and the previous owner afterwards. The code that makes Turns
  /// has to ensure that the previous owner does not use the Progress meanwhile.
  class Turn {
   public:
    /// @param progress  must outlive this
    explicit Turn(Progress& progress) : progress_(progress), owner_(progress.owner_.load(std::memory_order_relaxed)) {
      progress_.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { progress_.owner_.store(owner_, std::memory_order_relaxed); }

   private:
    Progress& progress_;
    std::thread::id owner_;
  };

  /// Receives notices that are no errors.
  using Notice = std::function<void(std::string_view)>;

  /// @param time    the clock for waiting and for the communicators' deadlines; null: the steady clock, and waiting
  ///         yields the processor. Must outlive the Progress.
  /// @param notice  called by the destructor of a Work or a communicator that is destroyed too early; null: no notices
  explicit Progress(WaitPolicy policy = {}, TimeSource* time = nullptr, Notice notice = nullptr)
      : policy_(policy), time_(time), spins_(policy.spins_before_yield), notice_(std::move(notice)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether the calling thread is the owner. The first thread that asks becomes the owner.
  [[nodiscard]] bool is_of_this_thread() {
    const std::thread::id me = std::this_thread::get_id();
    std::thread::id owner = owner_.load(std::memory_order_relaxed);
    return owner == me || (owner == std::thread::id() && owner_.compare_exchange_strong(owner, me));
  }

  /// Whether the calling thread is the owner. It does not become the owner by asking.
  [[nodiscard]] bool is_known_to_be_of_this_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  /// Adds a source. A communicator adds itself when it is made.
  void add(ProgressSource& source);
  /// Removes a source, which may be destroyed afterwards.
  void remove(ProgressSource& source);

  /// Polls all sources once; does nothing if a progress thread polls them. @return whether anything advanced
  bool poll();
  /// Polls until `done` returns true. Meanwhile the progress thread does not poll, because the owner does.
  void wait(const std::function<bool()>& done) { (void)wait_until(done, Clock::time_point::max()); }
  /// Waits until the operation has ended. At first only this operation is polled and no clock is read, because most
  /// short operations end then; afterwards all operations are polled.
  void wait(Operation& operation);
  /// Waits as `wait` does, but at most until a point in time. @return whether `done` returned true
  bool wait_until(const std::function<bool()>& done, Clock::time_point until);
  /// The time on this rank's clock.
  [[nodiscard]] Clock::time_point now() { return time_ == nullptr ? Clock::now() : time_->now(); }
  /// Calls `done` from time to time while this rank waits, until it returns true. A closed communicator leaves its
  /// remaining work here.
  void defer(std::function<bool()> done);
  /// Passes a text to the notice. It drops exceptions of the notice, because destructors call it.
  void say(std::string_view text) const noexcept;
  /// For back ends: keeps an error of one of this rank's communicators until the program has received it. A rank that
  /// waits on one communicator, and receives only consequences there, thus gets the cause that another communicator
  /// knows.
  void note_failure(const std::exception_ptr& error) {
    if (!unreported_) unreported_ = error;
  }
  /// The error that the program has not yet received; usually null.
  [[nodiscard]] const std::exception_ptr& unreported() const { return unreported_; }
  /// Called when the program receives this error.
  void report(const std::exception_ptr& error) {
    if (unreported_ == error) unreported_ = nullptr;
  }
  /// Records operations and polls from now on, for the watchdog of the process.
  void record_in(std::shared_ptr<FlightRecorder> recorder) { recorder_ = std::move(recorder); }
  /// For back ends: the record of this rank's operations; null if there is none.
  [[nodiscard]] FlightRecorder* recorder() const { return recorder_.get(); }
  /// Records what this rank does and in which training step (0: none), which the watchdog's reports say; the task is
  /// cut after 48 characters. It costs a few nanoseconds, and nothing if there is no record.
  void note_task(std::string_view task, std::int64_t step = 0) const;
  /// Whether a source other than this one has operations under way.
  [[nodiscard]] bool is_busy_besides(const ProgressSource& source) const;
  /// The current number of polls without progress before it yields.
  [[nodiscard]] int spins() const { return spins_; }

 private:
  friend class ProgressThread;
  void enter();
  void leave();
  bool poll_sources();
  bool on_tick();
  Clock::duration yield();
  bool sleep(Clock::time_point until);
  void adapt(std::optional<Clock::duration> longest_yield);
  [[nodiscard]] bool idle() const;

  std::atomic<std::thread::id> owner_{};
  std::vector<ProgressSource*> sources_;
  std::vector<std::function<bool()>> deferred_;
  WaitPolicy policy_;
  TimeSource* time_;
  int spins_;
  Notice notice_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::exception_ptr unreported_;
  unsigned polls_ = 0;
  Clock::time_point last_tick_;

  // Only the owner reads and writes these two.
  bool shared_ = false;  // whether there is a progress thread
  int depth_ = 0;        // number of nested Exclusives
  std::mutex mutex_;     // guards the sources; used only if shared
  std::condition_variable wake_;
  std::atomic<bool> wanted_ = false;  // the owner wants the mutex, for which it would wait long while the progress
                                      // thread polls again and again
};

}  // namespace lockstep
