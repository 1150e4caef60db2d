// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/shard_moves.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {
namespace {

constexpr double least_gain = 0.05;  // of a step; a smaller one may be noise
constexpr std::size_t fewest_steps = 10;
constexpr std::size_t most_steps = 1000;
constexpr double interval_seconds = 0.5;

/// Gives out blocks of shards one by one, each to the rank that will have computed it first.
/// @param each  seconds of a shard on each rank
/// @param size  shards of a block
std::vector<int> give_out(int shards, std::span<const double> each, int size) {
  std::vector<int> counts(each.size(), size);
  using Next = std::pair<double, std::size_t>;  // when a rank will have computed another block
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ranks;
  for (std::size_t rank = 0; rank < each.size(); ++rank) ranks.emplace(2 * size * each[rank], rank);
  for (int left = shards - size * static_cast<int>(each.size()); left > 0; left -= size) {
    const std::size_t rank = ranks.top().second;
    ranks.pop();
    counts[rank] += size;
    ranks.emplace((counts[rank] + size) * each[rank], rank);
  }
  return counts;
}

/// Returns what the exchange is proportional to.
double traffic(const LeafShares& shards, int ranks) {
  int sums = 0;
  for (int rank = 0; rank < ranks; ++rank) sums += count_tree_nodes(shards.total(), shards.of(rank, ranks)) + 1;
  return sums;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<LeafShares> balanced(const LeafShares& now, std::span<const StepTime> times) {
  const auto ranks = static_cast<int>(times.size());
  const std::vector<int> counts = now.counts(ranks);
  std::vector<double> each;  // seconds of a shard
  StepTime longest;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    each.push_back(times[rank].own / counts[rank]);
    longest.own = std::max(longest.own, times[rank].own);
    longest.whole = std::max(longest.whole, times[rank].whole);
  }
  const double exchange = std::max(0.0, longest.whole - longest.own) / traffic(now, ranks);
  const auto seconds = [&](const std::vector<int>& of_ranks) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < each.size(); ++rank) slowest = std::max(slowest, of_ranks[rank] * each[rank]);
    return slowest + exchange * traffic(LeafShares(of_ranks), ranks);
  };
  std::vector<int> best = counts;
  // Larger blocks balance less well, and their ranks send fewer sums.
  for (int size = 1; now.total() % size == 0 && size * ranks <= now.total(); size *= 2) {
    std::vector<int> candidate = give_out(now.total(), each, size);
    if (seconds(candidate) < seconds(best)) best = std::move(candidate);
  }
  if (seconds(counts) - seconds(best) < least_gain * longest.whole) return std::nullopt;
  return LeafShares(best);
}

Balance::Balance() : steps_(fewest_steps) {
  own_.reserve(most_steps);
  whole_.reserve(most_steps);
}

bool Balance::add(const StepTime& step) {
  own_.push_back(step.own);
  whole_.push_back(step.whole);
  return own_.size() >= steps_;
}

std::optional<LeafShares> Balance::decide(ProcessGroup& group, const LeafShares& now) {
  const std::vector<StepTime> times = gather_values(group, StepTime{median(own_), median(whole_)}, "times of steps");
  own_.clear();
  whole_.clear();
  double longest = 0;
  for (const StepTime& time : times) longest = std::max(longest, time.whole);
  const double steps = longest > 0 ? interval_seconds / longest : most_steps;
  steps_ = static_cast<std::size_t>(std::clamp<double>(steps, fewest_steps, most_steps));
  return balanced(now, times);
}

void ShardMoves::move(const LeafShares& shards) {
  run_->replica.move_shards(shards);
  run_->replica.start_from(run_->state);
  run_->batches.move_shards(shards);
  evaluator_->move_shards(shards);
  run_->prepare_steps();
}

void ShardMoves::balance(double step_seconds) {
  if (!balance_ || run_->all_steps_done()) return;
  const double waited = run_->replica.waited_seconds() - std::exchange(waited_before_, run_->replica.waited_seconds());
  if (!balance_->add({.own = step_seconds - waited, .whole = step_seconds})) return;
  const std::optional<LeafShares> better = balance_->decide(run_->group, run_->replica.shards());
  if (!better) return;
  run_->note_task("moving shards");
  move(*better);
  run_->listener.balance(
      {.epoch = run_->state.epoch, .step = run_->state.global_step, .shards = better->counts(run_->group.size())});
}

}  // namespace lockstep::trainer
