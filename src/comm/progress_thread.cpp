// SPDX-License-Identifier: Apache-2.0
#include "comm/progress_thread.hpp"

#include <mutex>

#include "lockstep/base/error.hpp"

namespace lockstep {

ProgressThread::ProgressThread(Progress& progress, const ProgressThreadOptions& options)
    : progress_(&progress), options_(options) {
  if (progress.shared_) throw Error(ErrorCode::invalid_argument, "the Progress has a progress thread already");
  thread_ = std::thread([this] { run(); });
  progress.shared_ = true;
}

ProgressThread::~ProgressThread() {
  {
    const Progress::Exclusive exclusive(*progress_);
    stop_ = true;
  }
  progress_->wake_.notify_one();
  thread_.join();
  progress_->shared_ = false;
}

void ProgressThread::run() {
  std::unique_lock lock(progress_->mutex_);
  int fruitless = 0;
  while (!stop_) {
    if (progress_->wanted_.load(std::memory_order_relaxed) || progress_->idle()) {
      progress_->wake_.wait(lock);
      fruitless = 0;
    } else if (progress_->poll_sources()) {
      fruitless = 0;
    } else if (++fruitless > options_.spins_before_nap) {
      progress_->wake_.wait_for(lock, options_.nap);
    }
  }
}

}  // namespace lockstep
