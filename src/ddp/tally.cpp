// SPDX-License-Identifier: Apache-2.0
#include "ddp/tally.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::ddp {
namespace {

/// What a rank without a weight adds to the count of the ranks that made a parameter ready. It lies above all counts of
/// ranks with a weight, and sums of both are exact in float64.
constexpr double without_weight = 1 << 24;

}  // namespace

void Tally::add(double weight, std::span<const double> sums) {
  weight_ += weight;
  if (sums_.size() < sums.size()) sums_.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums_[i] += sums[i];
}

Work Tally::send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest) {
  const bool has_weight = weight_ > 0;
  all_ranks_.assign({weight_, has_weight ? 1.0 : 0.0, not_finite});
  all_ranks_.insert(all_ranks_.end(), digest.begin(), digest.end());
  all_ranks_.insert(all_ranks_.end(), sums_.begin(), sums_.end());
  for (const char used : used_) all_ranks_.push_back(used == 0 ? 0.0 : has_weight ? 1.0 : without_weight);
  const Buffer all{all_ranks_.data(), {static_cast<std::int64_t>(all_ranks_.size())}, DType::float64};
  return communicator.all_reduce(all, all, ReduceOp::sum, Queue::host(), "weights and used parameters");
}

DataParallel::Step Tally::take(std::span<double> sums) {
  DataParallel::Step step{.weight = all_ranks_.front()};
  const double* numbers = digest().data() + digest().size();
  std::copy_n(numbers, sums.size(), sums.begin());
  const std::span<const double> used = used_by_all();
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used[i] == 0) step.unused.push_back(static_cast<int>(i));
    missing_[i] = weight_ > 0 && used_[i] == 0 ? 1 : 0;
  }
  begin_anew();
  return step;
}

bool Tally::is_uneven() const {
  const double ranks = all_ranks_[1];
  const std::span<const double> used = used_by_all();
  return ranks > 0 && std::any_of(used.begin(), used.end(),
                                  [&](double by) { return by > 0 && std::fmod(by, without_weight) < ranks; });
}

void Tally::begin_anew() {
  weight_ = 0;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  std::fill(used_.begin(), used_.end(), char{0});
}

}  // namespace lockstep::ddp
