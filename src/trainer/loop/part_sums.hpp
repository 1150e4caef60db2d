// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::trainer {

/// Sums over the test set whose bits do not depend on the number of ranks. Each rank brings the sums of parts of the
/// test set that it has predicted by themselves; these are added in the order of the data set, whoever brought them.
class PartSums {
 public:
  /// @param numbers  how many sums there are
  explicit PartSums(std::size_t numbers) : width_(1 + numbers) {}

  void reset() { rows_.clear(); }
  /// Adds the sums of a part. @param first  index in the data set of its first sample
  void add(std::int64_t first, std::span<const double> sums);
  /// Gathers the sums of the parts of all ranks. Collective. @cost  two all-gathers, of a row of numbers for each part
  void reduce(Communicator& communicator);
  /// Returns the sums over all parts that this rank knows.
  [[nodiscard]] std::vector<double> totals() const;

 private:
  std::size_t width_;
  std::vector<double> rows_;  // of each part: its first sample, and its sums
};

}  // namespace lockstep::trainer
