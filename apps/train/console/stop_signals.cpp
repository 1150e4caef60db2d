// SPDX-License-Identifier: Apache-2.0
#include "apps/train/console/stop_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <system_error>

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
  first_signal = 0;
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : signals) sigaddset(&taken, signal);
  end_ = eventfd(0, EFD_CLOEXEC);
  if (end_ < 0) throw std::system_error(errno, std::generic_category(), "no eventfd for the thread of signals");
  pthread_sigmask(SIG_BLOCK, &taken, &mask_before_);
  thread_ = std::thread([taken, end = end_] {
    pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
    pollfd ends{.fd = end, .events = POLLIN, .revents = 0};
    while (poll(&ends, 1, -1) < 0 && errno == EINTR) {
    }
  });
}

void StopSignals::handle() {
  first_at = now_ns();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  const std::uint64_t one = 1;
  while (write(end_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
  close(end_);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

const std::atomic<int>& StopSignals::received() { return first_signal; }
const std::atomic<int>& StopSignals::save_requests() { return saves; }

std::string signal_name(int signal) {
  switch (signal) {
    case SIGHUP: return "SIGHUP";
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR2: return "SIGUSR2";
    default: return "signal " + std::to_string(signal);
  }
}

}  // namespace lockstep::train
