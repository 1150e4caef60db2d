// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "lockstep/base/observer.hpp"

namespace lockstep::comm_bench {
namespace {

constexpr double max_repetitions = 1000;

std::int64_t nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

/// The measurements of the contenders at one size.
class Series {
 public:
  Series(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises, const Effort& effort)
      : start_line_(ranks, effort.protocol, effort.yields),
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
      wrong_[i] += exercise.wrong(repetition_);
    }
  }

  [[nodiscard]] std::vector<std::int64_t>& wrong() { return wrong_; }

 private:
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
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const auto upper = static_cast<double>(values[half]);
  return values.size() % 2 == 1 ? upper : (static_cast<double>(values[half - 1]) + upper) / 2;
}

}  // namespace

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
