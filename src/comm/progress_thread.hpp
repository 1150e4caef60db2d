// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// How a progress thread goes about it.
struct ProgressThreadOptions {
  int spins_before_nap = 2000;        ///< fruitless polls before each further one is preceded by a nap; 0 naps at once
  std::chrono::microseconds nap{50};  ///< between polls for what does not move
};

/// Moves the operations of a `Progress` while its owner computes.
///
/// It polls only while something is under way and the owner neither submits nor waits: who waits polls for himself, at
/// less delay. With nothing under way it sleeps and costs no processor. It needs a processor to be of use: where
/// the ranks fill all of them, polling between layers does as well.
///
/// Operations end on this thread, and so does what they call (`Observer::span`). An operation whose transport is MPI
/// needs MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED where the program makes no MPI calls while an operation is under
/// way; who joins the two checks that (`ProcessGroup` does).
class ProgressThread {
 public:
  /// @param progress  outlives the thread. Its owner makes and destroys the thread.
  /// @throws Error{invalid_argument} if it has a thread already; std::system_error if none can be started
  explicit ProgressThread(Progress& progress, const ProgressThreadOptions& options = {});
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// Waits for the poll under way, not for operations: these go on as the owner polls.
  ~ProgressThread();

 private:
  void run();

  Progress* progress_;
  ProgressThreadOptions options_;
  bool stop_ = false;  // guarded by the progress's mutex
  std::thread thread_;
};

}  // namespace lockstep
