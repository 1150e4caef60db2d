// SPDX-License-Identifier: Apache-2.0
#include "trainer/stragglers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/trainer_parts.hpp"

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
struct Report {
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
  const auto slowest =
      static_cast<std::size_t>(std::max_element(times.begin(), times.end(),
                                                [](const RankTime& a, const RankTime& b) { return own(a) < own(b); }) -
                               times.begin());
  // The slowest rank comes first, with the respect in which it is the slowest.
  std::stable_sort(all.begin(), all.end(), [](const Excess& a, const Excess& b) { return a.seconds > b.seconds; });
  const auto first = std::find_if(all.begin(), all.end(), [&](const Excess& e) { return e.rank == slowest; });
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

std::vector<observe::SlowRank> find_slow_ranks(ProcessGroup& group, const RankTime& mine, std::int64_t steps) {
  if (group.size() < 2 || steps == 0) return {};
  Report own{.time = mine};
  group.host().copy(own.host.data(), own.host.size() - 1);
  std::vector<Report> all(static_cast<std::size_t>(group.size()));
  const auto bytes = [](std::span<Report> reports) {
    return std::span(reinterpret_cast<std::uint8_t*>(reports.data()), reports.size_bytes());
  };
  group.control().all_gather(bytes({&own, 1}), bytes(all), Queue::host(), "times of ranks").wait();
  std::vector<RankTime> times;
  std::vector<std::string> hosts;
  for (const Report& report : all) {
    times.push_back(report.time);
    hosts.emplace_back(report.host.data());
  }
  return slow_ranks(times, hosts, steps);
}

Trainer::Times Trainer::times() const { return {run_seconds_, batches_.waited_seconds(), replica_.waited_seconds()}; }

/// Compares the ranks' own times since then. Collective.
std::vector<observe::SlowRank> Trainer::slow_ranks_since(const Times& before, std::int64_t steps) {
  const Times now = times();
  const double data = now.data - before.data;
  const double others = now.run - before.run - data;
  // On a device the host does not see how much of the time it computes and how much it waits for other ranks.
  const bool is_host = replica_.model().device().queue().is_host();
  const double wait = is_host ? now.wait - before.wait : others;
  return find_slow_ranks(*group_, {.data = data, .compute = others - wait, .wait = wait}, steps);
}

bool Trainer::wants_straggler_report() const {
  return options_.straggler_seconds > 0 && group_->rank() == Rank{0} &&
         seconds_since(stragglers_.reported) >= options_.straggler_seconds;
}

/// Reports the slow ranks since the last report. Collective.
void Trainer::report_stragglers() {
  const std::int64_t steps = state_.global_step - stragglers_.global_step;
  const observe::StragglerEvent event{.epoch = state_.epoch,
                                      .step = state_.global_step,
                                      .steps = steps,
                                      .ranks = slow_ranks_since(stragglers_.before, steps)};
  stragglers_ = {.before = times(), .global_step = state_.global_step, .reported = Clock::now()};
  if (listener_ != nullptr && !event.ranks.empty()) listener_->stragglers(event);
}

}  // namespace lockstep::trainer
