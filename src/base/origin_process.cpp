// SPDX-License-Identifier: Apache-2.0
#include "base/origin_process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <mutex>

namespace lockstep {

std::atomic<std::uint32_t>& OriginProcess::forks() {
  static constinit std::atomic<std::uint32_t> count{0};
  return count;
}

OriginProcess::OriginProcess() : process_(getpid()) {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks().fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  forks_ = forks().load(std::memory_order_relaxed);
}

void OriginProcess::refuse(std::string_view what, const ErrorContext& context) const {
  const std::string maker = std::to_string(process_);
  throw Error(ErrorCode::invalid_argument,
              std::string(what) + " was made by process " + maker + ", and this is process " +
                  std::to_string(getpid()) + ", a child of fork(): only process " + maker +
                  " can use it; let the child call exec or _exit()",
              context);
}

void keep_for_ever(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(object));
}

}  // namespace lockstep
