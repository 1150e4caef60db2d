#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace lockstep {

/// Something with operations under way that move on when they are asked to.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Moves every operation as far as it goes without waiting; failures are kept in the operations.
  /// @return whether anything moved
  virtual bool progress() noexcept = 0;
  /// Whether nothing is under way: a progress thread sleeps while all sources are idle.
  [[nodiscard]] virtual bool idle() const noexcept = 0;
};

/// How a rank waits. With more ranks than cores a spinning rank keeps the one it waits for from running.
struct WaitPolicy {
  int spins_before_yield = 2000;  ///< fruitless polls before each further one yields the core; 0 yields at once
};

/// The operations of one rank, over all its communicators: whoever waits for one moves them all,
/// so no order of waiting can deadlock. One value per rank, passed to each communicator; never global.
/// Used by one thread at a time, its owner, whom a `ProgressThread` may help.
class Progress {
 public:
  /// Keeps the progress thread away from the sources, and what they own, for as long as it lives. Held by whoever
  /// touches them otherwise than by `poll` and `wait`, that is, by a back end while it takes a submission. The owner
  /// may nest them. Costs one branch where there is no thread.
  class Exclusive {
   public:
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

  explicit Progress(WaitPolicy policy = {}) : policy_(policy) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(ProgressSource& source);
  void remove(ProgressSource& source);

  /// One round over all sources; nothing where a progress thread makes the rounds. @return whether anything moved
  bool poll();
  /// Polls until `done` returns true. A progress thread stays away meanwhile: its owner has nothing better to do.
  void wait(const std::function<bool()>& done);

 private:
  friend class ProgressThread;
  void enter();
  void leave();
  bool poll_sources();
  [[nodiscard]] bool idle() const;

  std::vector<ProgressSource*> sources_;
  WaitPolicy policy_;

  // The owner alone reads and writes these two.
  bool shared_ = false;  // with a progress thread
  int depth_ = 0;        // of nested Exclusives
  std::mutex mutex_;     // guards the sources; not used unless shared
  std::condition_variable wake_;
  std::atomic<bool> wanted_ = false;  // by the owner, who would else wait long for a thread that polls and polls
};

}  // namespace lockstep
