// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/stragglers.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {
namespace {

constexpr double slow_fraction = 0.05;  // of a step

double own(const RankTime& time) { return time.data + time.compute; }

/// Returns the median over ranks, the lower one of two: with two ranks, the faster one is the usual one.
double usual(std::span<const RankTime> times, double RankTime::*part) {
  std::vector<double> values;
  for (const RankTime& time : times) values.push_back(time.*part);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One respect in which a rank takes longer than usual.
struct Excess {
  std::size_t rank;
  bool is_data;
  double usual;
  double seconds;  ///< beyond the usual ones
};

/// What a rank tells the others.
struct TimeReport {
  RankTime time;
  std::array<char, 64> host{};
};

}  // namespace

std::vector<observe::SlowRank> slow_ranks(std::span<const RankTime> times, std::span<const std::string> hosts,
                                          std::int64_t steps) {
  if (times.size() < 2 || steps == 0) return {};
  const double usual_data = usual(times, &RankTime::data);
  const double usual_compute = usual(times, &RankTime::compute);
  std::vector<Excess> all;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    all.push_back({rank, true, usual_data, times[rank].data - usual_data});
    all.push_back({rank, false, usual_compute, times[rank].compute - usual_compute});
  }
  const auto slowest = static_cast<std::size_t>(std::ranges::max_element(times, {}, own) - times.begin());
  // The slowest rank comes first, with the respect in which it is the slowest.
  std::ranges::stable_sort(all, std::greater(), &Excess::seconds);
  const auto first = std::ranges::find(all, slowest, &Excess::rank);
  std::rotate(all.begin(), first, first + 1);
  const double least = slow_fraction * (own(times[slowest]) + times[slowest].wait);
  std::vector<observe::SlowRank> found;
  for (const Excess& excess : all) {
    if (!found.empty() && excess.seconds < least) continue;
    const RankTime& time = times[excess.rank];
    const auto each = static_cast<double>(steps);
    found.push_back({.rank = static_cast<int>(excess.rank),
                     .host = hosts[excess.rank],
                     .cause = excess.is_data ? "data" : "compute",
                     .seconds = (excess.is_data ? time.data : time.compute) / each,
                     .usual_seconds = excess.usual / each,
                     .data_seconds = time.data / each,
                     .compute_seconds = time.compute / each,
                     .wait_seconds = time.wait / each,
                     .is_straggler = excess.seconds >= least});
  }
  return found;
}

StragglerReports::Mark StragglerReports::mark() const {
  // On a device the host does not see how much of the time it computes and how much it waits for other ranks.
  const bool is_host = run_->replica.model().device().queue().is_host();
  const double data = run_->batches.waited_seconds();
  const double others = run_->trained.seconds - data;
  const double wait = is_host ? run_->replica.waited_seconds() : others;
  return {{.data = data, .compute = others - wait, .wait = wait}, run_->state.global_step};
}

std::vector<observe::SlowRank> StragglerReports::slow_ranks_since(const Mark& before) {
  const Mark now = mark();
  const std::int64_t steps = now.global_step - before.global_step;
  if (run_->group.size() < 2 || steps == 0) return {};
  TimeReport own{.time = now.time - before.time};
  run_->group.host().copy(own.host.data(), own.host.size() - 1);
  std::vector<RankTime> times;
  std::vector<std::string> hosts;
  for (const TimeReport& report : gather_values(run_->group, own, "times of ranks")) {
    times.push_back(report.time);
    hosts.emplace_back(report.host.data());
  }
  return slow_ranks(times, hosts, steps);
}

void StragglerReports::restart() {
  last_ = mark();
  reported_ = Clock::now();
  is_due_ = false;
}

bool StragglerReports::wants_report() const {
  const double interval = run_->options.straggler_seconds;
  return interval > 0 && run_->group.is_root() && seconds_since(reported_) >= interval;
}

void StragglerReports::report_if_due() {
  if (!is_due_) return;
  const observe::StragglerEvent event{.epoch = run_->state.epoch,
                                      .step = run_->state.global_step,
                                      .steps = run_->state.global_step - last_.global_step,
                                      .ranks = slow_ranks_since(last_)};
  restart();
  if (!event.ranks.empty()) run_->listener.stragglers(event);
}

}  // namespace lockstep::trainer
