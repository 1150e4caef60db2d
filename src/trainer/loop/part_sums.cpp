// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/part_sums.hpp"

#include <algorithm>

#include "trainer/loop/gathered.hpp"

namespace lockstep::trainer {

void PartSums::add(std::int64_t first, std::span<const double> sums) {
  rows_.push_back(static_cast<double>(first));
  rows_.insert(rows_.end(), sums.begin(), sums.end());
}

void PartSums::reduce(Communicator& communicator) { rows_ = gathered(communicator, rows_, "evaluated parts"); }

std::vector<double> PartSums::totals() const {
  std::vector<const double*> rows;
  for (std::size_t i = 0; i < rows_.size(); i += width_) rows.push_back(rows_.data() + i);
  std::ranges::stable_sort(rows, {}, [](const double* row) { return *row; });
  std::vector<double> totals(width_ - 1);
  for (const double* row : rows)
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += row[1 + i];
  return totals;
}

}  // namespace lockstep::trainer
