// SPDX-License-Identifier: Apache-2.0
#include "base/signal_stack.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers,hicpp-deprecated-headers): for sigaltstack
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

namespace lockstep {
namespace {

/// Much more than a handler needs for a backtrace: the registers of AVX-512 and AMX alone take 11 KiB.
constexpr std::size_t stack_bytes = std::size_t{64} << 10;

/// The threads that have a stack for signals.
struct ThreadsWithStack {
  std::mutex mutex;
  std::set<int> ids;
};

ThreadsWithStack& threads_with_stack() {
  static auto* const all = new ThreadsWithStack;  // never destroyed, because threads may end while the process does
  return *all;
}

/// The stack of one thread. That of somebody else, such as a sanitizer, is left as it is, and serves as well.
class SignalStack {
 public:
  SignalStack() : thread_(static_cast<int>(syscall(SYS_gettid))) {
    ThreadsWithStack& all = threads_with_stack();
    stack_t before{};
    if (sigaltstack(nullptr, &before) != 0) return;
    if ((before.ss_flags & SS_DISABLE) != 0) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);  // only pages in use take memory
      stack_t mine{};
      mine.ss_sp = memory_.get();
      mine.ss_size = stack_bytes;
      if (sigaltstack(&mine, nullptr) != 0) return;
    }
    const std::lock_guard lock(all.mutex);
    all.ids.insert(thread_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() {
    {
      const std::lock_guard lock(threads_with_stack().mutex);
      threads_with_stack().ids.erase(thread_);
    }
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (memory_) sigaltstack(&none, nullptr);
  }

 private:
  int thread_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

void use_signal_stack() { thread_local const SignalStack stack; }

bool has_signal_stack(int thread) {
  const std::lock_guard lock(threads_with_stack().mutex);
  return threads_with_stack().ids.contains(thread);
}

}  // namespace lockstep
