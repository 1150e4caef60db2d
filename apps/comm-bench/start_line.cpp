// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/start_line.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>
#include <thread>

#include "base/hash.hpp"

namespace lockstep::comm_bench {
namespace {

using std::chrono::nanoseconds;

/// How far ahead the ranks agree to begin. It exceeds the time that the agreement takes to reach the last rank.
constexpr Clock::duration min_lead = std::chrono::microseconds(20);
constexpr Clock::duration max_lead = std::chrono::milliseconds(10);

/// Returns equal values for processes that read the same monotonic clock, or a value too large for any fingerprint if
/// the clock cannot be identified.
std::int64_t clock_fingerprint() {
  constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) return unknown;
  std::error_code no_time_namespaces;
  Fnv1a hash;
  hash.add(boot);
  hash.add(std::filesystem::read_symlink("/proc/self/ns/time", no_time_namespaces).string());
  return static_cast<std::int64_t>(hash.value() >> 2);
}

bool have_common_clock(Ranks& ranks) {
  const std::int64_t mine = clock_fingerprint();
  std::array<std::int64_t, 2> ends = {mine, -mine};
  ranks.max(ends);
  return ends[0] == -ends[1] && ends[0] != std::numeric_limits<std::int64_t>::max();
}

Clock::time_point latest(Ranks& ranks, Clock::time_point mine) {
  std::int64_t ticks = std::chrono::duration_cast<nanoseconds>(mine.time_since_epoch()).count();
  ranks.max({&ticks, 1});
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(nanoseconds(ticks)));
}

}  // namespace

StartLine::StartLine(Ranks& ranks, Protocol protocol, bool yields)
    : ranks_(&ranks),
      common_clock_(protocol == Protocol::common_clock && have_common_clock(ranks)),
      yields_(yields || ranks.size() > static_cast<int>(std::thread::hardware_concurrency())),
      lead_(max_lead) {}

Clock::time_point StartLine::wait() {
  ranks_->barrier();  // so that the agreement below takes only its own time, from which the next lead follows
  if (!common_clock_) return Clock::now();
  const Clock::time_point arrival = Clock::now();
  const Clock::time_point start = latest(*ranks_, arrival + lead_);
  lead_ = std::clamp(2 * (Clock::now() - arrival), min_lead, max_lead);
  wait_until(start);
  return start;
}

void StartLine::wait_until(Clock::time_point start) const {
  while (Clock::now() < start) {
    if (yields_) std::this_thread::yield();
  }
}

}  // namespace lockstep::comm_bench
