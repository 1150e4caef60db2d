// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/blocks.hpp"

#include <algorithm>
#include <limits>

namespace lockstep::collectives {
namespace {

/// Saturates, so that a segment of the maximum length can express that nothing is to be divided.
Count times(std::int64_t factor, Count segment) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  return {segment.value > limit / factor ? limit : factor * segment.value};
}

std::int64_t longest_of(const std::vector<std::int64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

Count block_count(CollectiveKind kind, Algorithm algorithm, int ranks, Count segment) {
  const bool is_binomial = kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
  if (is_binomial && ranks > 2) return {std::max<std::int64_t>(1, segment.value / ranks * 2)};
  if (kind != CollectiveKind::all_reduce || uses_shared_memory(algorithm)) return segment;
  return times(row_of(algorithm).segments(ranks), segment);
}

std::vector<EqualBlocks> cut_evenly(std::span<const std::int64_t> counts, Count longest) {
  std::vector<EqualBlocks> cuts;
  std::vector<std::int64_t> left(counts.begin(), counts.end());
  std::vector<std::int64_t> begin(counts.size());
  const auto add = [&](std::int64_t blocks, const std::vector<std::int64_t>& of_each) {
    cuts.push_back({blocks, of_each, begin});
    for (std::size_t k = 0; k < begin.size(); ++k) begin[k] += blocks * of_each[k];
  };
  while (longest_of(left) > 0) {
    const std::int64_t blocks = divided_up(longest_of(left), longest.value);
    std::vector<std::int64_t> of_each = left;
    for (auto& count : of_each) count /= blocks;
    for (auto& count : left) count %= blocks;
    std::vector<std::int64_t> last = of_each;
    for (std::size_t k = 0; k < last.size(); ++k) last[k] += left[k];
    if (longest_of(left) == 0 || longest_of(last) > longest.value) {
      add(blocks, of_each);
    } else {
      add(blocks - 1, of_each);  // a single block leaves nothing for this cut
      add(1, last);
      break;
    }
  }
  return cuts;
}

PairMessages::PairMessages(std::int64_t count, Count segment)
    : count_(count), length_(std::max(segment.value, divided_up(count, std::int64_t{64}))) {}

}  // namespace lockstep::collectives
