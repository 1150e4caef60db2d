// SPDX-License-Identifier: Apache-2.0
#include "apps/train/stop_signals.hpp"

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace lockstep::train {
namespace {

std::atomic<int> first_signal = 0;
std::atomic<int> saves = 0;
std::atomic<std::int64_t> first_at = 0;  // unit: nanoseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Calls only async-signal-safe functions.
void on_signal(int signal) {
  if (signal == SIGUSR1) {
    ++saves;
    return;
  }
  const int error = errno;
  constexpr std::int64_t same_ns = 1'000'000'000;
  const std::int64_t now = now_ns();
  if (int none = 0; first_signal.compare_exchange_strong(none, signal)) {
    first_at = now;
  } else if (now - first_at >= same_ns) {
    std::signal(signal, SIG_DFL);
    (void)std::raise(signal);  // takes effect when the handler returns
  }
  errno = error;
}

}  // namespace

StopSignals::StopSignals() {
  first_at = now_ns();
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

const std::atomic<int>& StopSignals::received() { return first_signal; }
const std::atomic<int>& StopSignals::save_requests() { return saves; }

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    default: return "signal " + std::to_string(signal);
  }
}

}  // namespace lockstep::train
