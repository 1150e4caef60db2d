// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep::ops {

/// Calls its argument, with member and members, on each thread of a team.
using OnTeam = std::function<void(const std::function<void(int member, int members)>&)>;

/// Sums over blocks of fixed length, whose sums are added pairwise. The bits are the same on any number of threads.
class BlockSums {
 public:
  /// @param of_block  returns the sum over the elements from an index on, given with their number. Several threads call
  /// it
  template <typename OfBlock>
  double operator()(Count count, const OnTeam& on_team, const OfBlock& of_block) {
    const std::int64_t blocks = (count.value + block_length - 1) / block_length;
    if (static_cast<std::int64_t>(blocks_.size()) < blocks) blocks_.resize(static_cast<std::size_t>(blocks));
    const auto add_some = [&](int member, int members) {
      for (std::int64_t block = blocks * member / members; block < blocks * (member + 1) / members; ++block) {
        const std::int64_t begin = block * block_length;
        blocks_[static_cast<std::size_t>(block)] = of_block(begin, std::min(block_length, count.value - begin));
      }
    };
    on_team(std::ref(add_some));  // std::ref, because std::function holds it without allocating
    return pairwise(blocks_.data(), static_cast<std::size_t>(blocks));
  }

 private:
  static constexpr std::int64_t block_length = 4096;

  static double pairwise(const double* values, std::size_t count) {
    if (count == 0) return 0;
    if (count == 1) return values[0];
    const std::size_t half = count / 2;
    return pairwise(values, half) + pairwise(values + half, count - half);
  }

  std::vector<double> blocks_;  // kept, so that a call allocates only for more values than before
};

}  // namespace lockstep::ops
