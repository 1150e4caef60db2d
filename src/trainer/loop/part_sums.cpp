// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/part_sums.hpp"

#include <algorithm>

namespace lockstep::trainer {

void PartSums::add(std::int64_t first, std::span<const double> sums) {
  rows_.push_back(static_cast<double>(first));
  rows_.insert(rows_.end(), sums.begin(), sums.end());
}

void PartSums::reduce(Communicator& communicator) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(communicator.size()));
  const auto own = static_cast<std::int64_t>(rows_.size());
  communicator.all_gather(std::span(&own, 1), std::span(sizes), Queue::host(), "number of evaluated parts").wait();
  std::vector<Count> counts;
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    counts.push_back({size});
    total += size;
  }
  std::vector<double> rows(static_cast<std::size_t>(total));
  communicator.all_gather_v(std::span(std::as_const(rows_)), std::span(rows), counts, Queue::host(), "evaluated parts")
      .wait();
  rows_ = std::move(rows);
}

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
