// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/observer.hpp"

namespace lockstep {

class Operation;

/// Something with operations under way that move on when they are asked to.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Moves every operation as far as it goes without waiting; failures are kept in the operations.
  /// @return whether anything moved
  virtual bool progress() noexcept = 0;
  /// Called every millisecond or so while operations are waited for, also of an idle source: looks at what no operation
  /// waits for, as a deadline, a peer that has gone, or what other ranks have to tell. @return whether anything moved
  virtual bool look_round(Clock::time_point /*now*/) noexcept { return false; }
  /// Whether nothing is under way: a progress thread sleeps while all sources are idle.
  [[nodiscard]] virtual bool idle() const noexcept = 0;
  /// Sleeps, at most `at_most`, until somebody it waits for has gone on; moves operations as `progress` does.
  /// @return false, without having slept, if nobody would wake it
  virtual bool sleep(std::chrono::nanoseconds /*at_most*/) noexcept { return false; }
};

/// What passes for time on a rank. A test passes one of its own: then all ranks can run on one thread, and deadlines
/// come without anybody waiting for them.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  /// What time it is. It never goes back.
  [[nodiscard]] virtual Clock::time_point now() = 0;
  /// Stands in for yielding the processor, between two polls that moved nothing.
  virtual void yield() = 0;
  /// Stands in for `source.sleep(at_most)`, and returns what that would.
  virtual bool sleep(ProgressSource& source, std::chrono::nanoseconds at_most) = 0;
};

/// How a rank waits: first it spins, then it yields the core between polls, and at last, where those it waits for share
/// memory with it and will wake it, it sleeps. With more ranks than cores a spinning rank keeps the one it waits for
/// from running; so all ranks of a node should spin, or none.
struct WaitPolicy {
  static constexpr int always = std::numeric_limits<int>::max();

  int spins_before_yield = 2000;   ///< fruitless polls before each further one yields the core; 0 yields at once
  int yields_before_sleep = 2000;  ///< and how often it yields before it sleeps
  /// Whether a rank whose spins are in vain spins less from then on, until they are not. So the ranks of two nodes that
  /// are the same machine, as namespaces or containers, find out that they share its cores.
  bool adaptive = true;
};

/// "auto", "spin", "yield" and "sleep": what a user can ask for.
std::span<const std::string_view> wait_names();
/// @param spins_advised  for "auto": what is known of cores and ranks; `NodeView` does
/// @pre `name` is one of wait_names()
WaitPolicy make_wait_policy(std::string_view name, int spins_advised);

/// The operations of one rank, over all its communicators: whoever waits for one moves them all,
/// so no order of waiting can deadlock. One value per rank, passed to each communicator; never global.
/// Used by one thread, its owner, whom a `ProgressThread` may help and who may lend it by a `Turn`.
class Progress {
 public:
  /// Keeps the progress thread away from the sources, and what they own, for as long as it lives. Held by whoever
  /// touches them otherwise than by `poll` and `wait`, that is, by a back end while it takes a submission. The owner
  /// may nest them. Costs one branch where there is no thread.
  class Exclusive {
   public:
    /// Waits until the progress thread, if there is one, has ended its round.
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

  /// Lends a rank's operations to the calling thread for as long as it lives; its own gets them back afterwards. What
  /// that one does with them happens before or after, never meanwhile: whoever makes turns sees to that.
  class Turn {
   public:
    /// @param progress  outlives this
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

  /// Hears what there is to say that is no error.
  using Notice = std::function<void(std::string_view)>;

  /// @param time    by which it waits, and the communicators tell deadlines; null: the steady clock, and the processor
  ///                is yielded. Outlives the progress.
  /// @param notice  told, by a destructor, of a Work or a communicator that is destroyed too early; null: nobody is
  explicit Progress(WaitPolicy policy = {}, TimeSource* time = nullptr, Notice notice = nullptr)
      : policy_(policy), time_(time), spins_(policy.spins_before_yield), notice_(std::move(notice)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether the calling thread is this rank's: the first that asks.
  [[nodiscard]] bool is_of_this_thread() {
    const std::thread::id me = std::this_thread::get_id();
    std::thread::id owner = owner_.load(std::memory_order_relaxed);
    return owner == me || (owner == std::thread::id() && owner_.compare_exchange_strong(owner, me));
  }

  /// The same, without becoming this rank's.
  [[nodiscard]] bool is_known_to_be_of_this_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  /// Moves this source as well from now on. A communicator does so when it is made.
  void add(ProgressSource& source);
  /// Moves it no more; it may be destroyed then.
  void remove(ProgressSource& source);

  /// One round over all sources; nothing where a progress thread makes the rounds. @return whether anything moved
  bool poll();
  /// Polls until `done` returns true. A progress thread stays away meanwhile: its owner has nothing better to do.
  void wait(const std::function<bool()>& done) { (void)wait_until(done, Clock::time_point::max()); }
  /// Until the operation has ended. For a moment, in which most that are short end, it alone is polled and no clock is
  /// read; then all are.
  void wait(Operation& operation);
  /// As `wait`, but no longer than until a time. @return whether `done` returned true
  bool wait_until(const std::function<bool()>& done, Clock::time_point until);
  /// The time by which this rank waits.
  [[nodiscard]] Clock::time_point now() { return time_ == nullptr ? Clock::now() : time_->now(); }
  /// Calls `done` now and then while this rank waits, until it returns true: what a communicator that is closed has
  /// still to do.
  void leave_behind(std::function<bool()> done);
  /// For destructors, which can throw nothing; what the notice throws is dropped.
  void say(std::string_view text) const noexcept;
  /// For back ends: keeps an error of one of this rank's communicators until the program has been given it. So a rank
  /// that waits on one communicator gets the cause that another one knows, where all that it hears are consequences.
  void note_failure(const std::exception_ptr& error) {
    if (!unreported_) unreported_ = error;
  }
  /// The error that the program has not been given yet; null mostly.
  [[nodiscard]] const std::exception_ptr& unreported() const { return unreported_; }
  /// The program is given this error.
  void report(const std::exception_ptr& error) {
    if (unreported_ == error) unreported_ = nullptr;
  }
  /// Whether another source than this one has operations under way.
  [[nodiscard]] bool is_busy_besides(const ProgressSource& source) const;
  /// Fruitless polls before it yields, as it finds right at present.
  [[nodiscard]] int spins() const { return spins_; }

 private:
  friend class ProgressThread;
  void enter();
  void leave();
  bool poll_sources();
  bool look_round();
  void yield();
  bool sleep(Clock::time_point until);
  void adapt(bool in_vain);
  [[nodiscard]] bool idle() const;

  std::atomic<std::thread::id> owner_{};
  std::vector<ProgressSource*> sources_;
  std::vector<std::function<bool()>> left_behind_;
  WaitPolicy policy_;
  TimeSource* time_;
  int spins_;
  Notice notice_;
  std::exception_ptr unreported_;
  unsigned polls_ = 0;
  Clock::time_point last_look_;

  // The owner alone reads and writes these two.
  bool shared_ = false;  // with a progress thread
  int depth_ = 0;        // of nested Exclusives
  std::mutex mutex_;     // guards the sources; not used unless shared
  std::condition_variable wake_;
  std::atomic<bool> wanted_ = false;  // by the owner, who would else wait long for a thread that polls and polls
};

}  // namespace lockstep
