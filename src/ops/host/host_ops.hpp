// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/formulas/moments.hpp"

namespace lockstep::ops {

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
    if (blocks == 0) return 0;
    const auto sum_of = [&](std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; };
    return fold_pairwise(0, blocks, sum_of, std::plus<>());
  }

 private:
  static constexpr std::int64_t block_length = 4096;

  std::vector<double> blocks_;  // kept, so that a call allocates only for more values than before
};

/// @throws Error{unsupported} naming the dtype between two parts of a sentence, unless it is float32 or float64
void require_real(DType dtype, const char* before, const char* after);

/// The common part of the compute libraries for CPUs: the optimizer's kernels, on the library's team of threads. They
/// compute in the element type's own precision. The bits are the same on every processor and on any number of threads.
/// All throw Error{unsupported} unless the dtype is float32 or float64.
class HostOps : public Ops {
 public:
  void update(std::span<const UpdateStep> steps) override;
  void measure_update(std::span<const UpdateStep> steps) override;
  void average(const AverageStep& step) override;
  /// Adds in double.
  void add_squares(const ConstBuffer& values, double* sum, Queue queue) override;
  /// Measures the peak rates of the team.
  [[nodiscard]] MachineLimits measure_limits(DType dtype) override;
  [[nodiscard]] OnTeam on_team() const override { return on_team_; }

 protected:
  explicit HostOps(OnTeam on_team) : on_team_(std::move(on_team)) {}

 private:
  void measure(const UpdateStep& step);

  OnTeam on_team_;
  BlockSums sums_;
};

}  // namespace lockstep::ops
