// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// Polling behavior of a progress thread.
struct ProgressThreadOptions {
  int spins_before_nap = 2000;        ///< fruitless polls before it naps between polls; 0 naps at once
  std::chrono::microseconds nap{50};  ///< pause between fruitless polls
};

/// Advances the operations of a `Progress` while its owner computes.
/// The thread polls only while an operation is pending and the owner neither submits nor waits: an owner that waits
/// polls by itself, with less delay. With nothing pending the thread sleeps and uses no processor time. It helps only
/// if a core is free: where the ranks occupy all cores, polling between layers does as well.
/// Operations end on this thread, and the callbacks that they invoke run on it (`Observer::span`). An operation over
/// MPI needs MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if the program makes no MPI calls while an operation is
/// pending; the caller that combines MPI with a progress thread checks this (`ProcessGroup` does).
class ProgressThread {
 public:
  /// @param progress  outlives the thread. Its owner creates and destroys the thread.
  /// @throws Error{invalid_argument} if it has a thread already; std::system_error if no thread can be started
  explicit ProgressThread(Progress& progress, const ProgressThreadOptions& options = {});
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// Waits for the poll that is in progress, but not for operations: these continue when the owner polls.
  ~ProgressThread();

 private:
  void run();

  Progress* progress_;
  ProgressThreadOptions options_;
  bool stop_ = false;  // guarded by the progress's mutex
  std::thread thread_;
};

}  // namespace lockstep
