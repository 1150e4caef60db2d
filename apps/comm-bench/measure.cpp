// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <system_error>
#include <thread>

#include "base/hash.hpp"

namespace lockstep::comm_bench {
namespace {

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
  std::int64_t ticks = std::chrono::duration_cast<std::chrono::nanoseconds>(mine.time_since_epoch()).count();
  ranks.max({&ticks, 1});
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(ticks)));
}

constexpr double max_repetitions = 1000;

std::int64_t nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

/// The measurements of the contenders at one size.
class Series {
 public:
  Series(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises, const Effort& effort)
      : ranks_(&ranks),
        start_line_(ranks, effort.protocol, effort.yields),
        contenders_(&contenders),
        exercises_(exercises),
        order_(contenders.size()),
        wrong_(contenders.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// Runs each contender once, and appends this rank's nanoseconds in the contenders' order.
  void round(std::vector<std::int64_t>& nanoseconds) {
    std::shuffle(order_.begin(), order_.end(), random_);
    const std::size_t first = nanoseconds.size();
    nanoseconds.resize(first + order_.size());
    for (const std::size_t i : order_) {
      ++repetition_;  // it also differs between contenders, so that none can pass with the result of the one before
      Exercise& exercise = *exercises_[exercises_.size() == 1 ? 0 : i];
      exercise.refill(repetition_);
      const Collective collective = exercise.collective();
      const Clock::time_point begin = start_line_.wait();
      (*contenders_)[i]->run(collective);
      nanoseconds[first + i] = nanoseconds_since(begin);
      // A rank that shares its core with others ends only when these yield. Without a barrier that would be after their
      // check and their refill, which are no part of the operation.
      ranks_->barrier();
      wrong_[i] += exercise.wrong(repetition_);
    }
  }

  [[nodiscard]] std::vector<std::int64_t>& wrong() { return wrong_; }

 private:
  Ranks* ranks_;
  StartLine start_line_;
  const Contenders* contenders_;
  std::span<Exercise* const> exercises_;
  std::vector<std::size_t> order_;
  std::minstd_rand random_;  // draws the same numbers on all ranks
  std::int64_t repetition_ = 0;
  std::vector<std::int64_t> wrong_;
};

/// Returns the largest number of all ranks, because ranks whose numbers differ would wait for each other forever.
std::int64_t agreed_repetitions(Ranks& ranks, const Effort& effort, double seconds_each) {
  if (effort.repetitions > 0) return effort.repetitions;
  auto fitting = static_cast<std::int64_t>(
      std::clamp<double>(effort.seconds / seconds_each, effort.min_repetitions, max_repetitions));
  ranks.max({&fitting, 1});
  return fitting;
}

double median(std::vector<std::int64_t>& values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  const auto upper = static_cast<double>(values[half]);
  return values.size() % 2 == 1 ? upper : (static_cast<double>(values[half - 1]) + upper) / 2;
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
  while (Clock::now() < start)
    if (yields_) std::this_thread::yield();
  return start;
}

std::vector<Measurement> measure(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises,
                                 const Effort& effort) {
  Series series(ranks, contenders, exercises, effort);
  std::vector<std::int64_t> nanoseconds;
  double round_seconds = 0;
  for (int i = 0; i < effort.warmup; ++i) {
    const Clock::time_point begin = Clock::now();
    series.round(nanoseconds);
    round_seconds = 1e-9 * static_cast<double>(nanoseconds_since(begin));
  }
  nanoseconds.clear();
  const auto width = contenders.size();
  const std::int64_t repetitions = agreed_repetitions(ranks, effort, round_seconds / static_cast<double>(width));
  for (std::int64_t i = 0; i < repetitions; ++i) series.round(nanoseconds);
  ranks.max(nanoseconds);
  ranks.sum(series.wrong());

  std::vector<Measurement> results;
  for (std::size_t i = 0; i < width; ++i) {
    std::vector<std::int64_t> own;
    for (std::size_t k = i; k < nanoseconds.size(); k += width) own.push_back(nanoseconds[k]);
    const double middle = median(own);
    results.push_back({.algorithm = contenders[i]->name(),
                       .bytes = exercises.front()->bytes(),
                       .count = exercises.front()->count(),
                       .median_seconds = 1e-9 * middle,
                       .min_seconds = 1e-9 * static_cast<double>(own.front()),
                       .wrong = series.wrong()[i]});
  }
  return results;
}

}  // namespace lockstep::comm_bench
