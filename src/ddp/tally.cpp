// SPDX-License-Identifier: Apache-2.0
#include "ddp/tally.hpp"

#include <algorithm>

namespace lockstep::ddp {

void Tally::add(double weight, std::span<const double> sums) {
  weight_ += weight;
  if (sums_.size() < sums.size()) sums_.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums_[i] += sums[i];
}

Work Tally::send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest) {
  all_ranks_.assign({weight_, not_finite});
  all_ranks_.insert(all_ranks_.end(), digest.begin(), digest.end());
  all_ranks_.insert(all_ranks_.end(), sums_.begin(), sums_.end());
  all_ranks_.insert(all_ranks_.end(), used_.begin(), used_.end());
  const Buffer all{all_ranks_.data(), {static_cast<std::int64_t>(all_ranks_.size())}, DType::float64};
  return communicator.all_reduce(all, all, ReduceOp::sum, Queue::host(), "weights and used parameters");
}

DataParallel::Step Tally::take(std::span<double> sums) {
  DataParallel::Step step{.weight = all_ranks_.front()};
  const double* numbers = digest().data() + digest().size();
  std::copy_n(numbers, sums.size(), sums.begin());
  const double* used = numbers + sums_.size();
  for (std::size_t i = 0; i < used_.size(); ++i)
    if (used[i] == 0) step.unused.push_back(static_cast<int>(i));
  begin_anew();
  return step;
}

void Tally::begin_anew() {
  weight_ = 0;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  std::fill(used_.begin(), used_.end(), char{0});
}

}  // namespace lockstep::ddp
