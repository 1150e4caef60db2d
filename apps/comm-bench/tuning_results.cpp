// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "apps/comm-bench/tune.hpp"
#include "collectives/algorithms/blocks.hpp"

namespace lockstep::comm_bench {

using collectives::Algorithm;
using collectives::Choice;
using collectives::ShapeSummary;
using collectives::TableEntry;

namespace {

constexpr std::array<std::int64_t, 4> segments = {32 << 10, 63 << 10, 128 << 10, 512 << 10};
constexpr std::array numbers_in_flight = {2, 4, 8};
constexpr double within_noise = 1.02;

/// Returns what distinguishes the runs of a choice at a size: segment and blocks in flight, if there is more than one
/// block.
std::pair<std::int64_t, std::int64_t> run_of(CollectiveKind kind, const Choice& choice, int ranks, Bytes bytes) {
  if (choice.algorithm == Algorithm::shared_memory) return {0, choice.blocks_in_flight};  // it sends no segments
  const std::int64_t block = collectives::block_count(kind, choice.algorithm, ranks, {choice.segment.value}).value;
  const std::int64_t blocks = kind == CollectiveKind::barrier ? 1 : (bytes.value + block - 1) / block;
  if (blocks <= 1) return {0, 1};
  return {choice.segment.value, std::min<std::int64_t>(choice.blocks_in_flight, blocks)};
}

Bytes middle(Bytes a, Bytes b) {
  return {std::llround(std::sqrt(static_cast<double>(a.value) * static_cast<double>(b.value)))};
}

}  // namespace

std::vector<Choice> settings_of(CollectiveKind kind, const Choice& way, const collectives::ShapeSummary& shape,
                                Bytes bytes) {
  std::vector<Choice> all = {with_useful_blocks({.algorithm = way.algorithm, .radix = way.radix}, shape)};
  for (const std::int64_t segment : segments) {
    for (const int in_flight : numbers_in_flight)
      all.push_back(with_useful_blocks({way.algorithm, {segment}, in_flight, way.radix}, shape));
  }
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  const auto known = [&](const Choice& choice) {
    return !seen.insert(run_of(kind, choice, shape.ranks, bytes)).second;
  };
  std::vector<Choice> distinct;
  std::remove_copy_if(all.begin(), all.end(), std::back_inserter(distinct), known);
  return distinct;
}

std::vector<Timed> fastest(std::vector<Timed> timed, std::size_t most, double factor) {
  std::stable_sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  const auto too_slow = [&](const Timed& t) { return t.seconds > factor * timed.front().seconds; };
  const auto end = std::find_if(timed.begin(), timed.end(), too_slow);
  const auto kept = std::min(most, static_cast<std::size_t>(end - timed.begin()));
  timed.erase(timed.begin() + static_cast<std::ptrdiff_t>(kept), timed.end());
  return timed;
}

Choice best_of(std::vector<Timed> timed, const Choice& preferred) {
  const std::size_t all = timed.size();
  timed = fastest(std::move(timed), all, within_noise);
  const auto among = std::any_of(timed.begin(), timed.end(), [&](const Timed& t) { return t.choice == preferred; });
  return among ? preferred : timed.front().choice;
}

std::vector<TableEntry> entries_of(CollectiveKind kind, const ShapeSummary& shape, std::span<const Finding> findings) {
  std::vector<TableEntry> entries;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Bytes below = i + 1 < findings.size() ? middle(findings[i].bytes, findings[i + 1].bytes) : TableEntry::no_end;
    if (!entries.empty() && entries.back().choice == findings[i].choice) {
      entries.back().below = below;
    } else {
      const Bytes from = entries.empty() ? Bytes{0} : entries.back().below;
      entries.push_back({kind, shape, from, below, findings[i].choice});
    }
  }
  return entries;
}

}  // namespace lockstep::comm_bench
