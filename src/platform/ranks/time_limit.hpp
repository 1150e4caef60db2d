// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

/// Calls a function on a thread of its own unless it is destroyed in time. Around a call that may never return, the
/// function ends the process.
class TimeLimit {
 public:
  TimeLimit(std::chrono::duration<double> limit, std::function<void()> when_over)
      : thread_([this, limit, when_over = std::move(when_over)] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, limit, [this] { return is_over_; })) when_over();
        }) {}
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // last, because it uses the others
};

}  // namespace lockstep
