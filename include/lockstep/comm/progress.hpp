#pragma once

#include <functional>
#include <vector>

namespace lockstep {

/// Something with operations under way that move on when they are asked to.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Moves every operation as far as it goes without waiting; failures are kept in the operations.
  /// @return whether anything moved
  virtual bool progress() noexcept = 0;
};

/// How a rank waits. With more ranks than cores a spinning rank keeps the one it waits for from running.
struct WaitPolicy {
  int spins_before_yield = 2000;  ///< fruitless polls before each further one yields the core; 0 yields at once
};

/// The operations of one rank, over all its communicators: whoever waits for one moves them all,
/// so no order of waiting can deadlock. One value per rank, passed to each communicator; never global.
/// Used by one thread at a time.
class Progress {
 public:
  explicit Progress(WaitPolicy policy = {}) : policy_(policy) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(ProgressSource& source);
  void remove(ProgressSource& source);

  /// One round over all sources. @return whether anything moved
  bool poll();
  /// Polls until `done` returns true.
  void wait(const std::function<bool()>& done);

 private:
  std::vector<ProgressSource*> sources_;
  WaitPolicy policy_;
};

}  // namespace lockstep
