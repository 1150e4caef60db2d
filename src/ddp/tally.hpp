// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ddp/value_check.hpp"

namespace lockstep::ddp {

/// The values that the ranks sum beside the gradients: weights, the number of ranks that have one, counts of gradients
/// that are not finite, the digest of values, the program's numbers, and which parameters are ready.
class Tally {
 public:
  explicit Tally(std::size_t parameters) : used_(parameters, 0), missing_(parameters, 0) {}

  void use(int parameter) { used_[static_cast<std::size_t>(parameter)] = 1; }
  [[nodiscard]] bool is_used(int parameter) const { return used_[static_cast<std::size_t>(parameter)] != 0; }
  void add(double weight, std::span<const double> sums) {
    weight_ += weight;
    if (sums_.size() < sums.size()) sums_.resize(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums_[i] += sums[i];
  }
  /// Returns this rank's sum so far.
  [[nodiscard]] double weight() const { return weight_; }

  /// Starts the all-reduce of the sums. @param not_finite  how many gradients of this rank are not finite
  Work send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest) {
    const bool has_weight = weight_ > 0;
    all_ranks_.assign({weight_, has_weight ? 1.0 : 0.0, not_finite});
    all_ranks_.insert(all_ranks_.end(), digest.begin(), digest.end());
    all_ranks_.insert(all_ranks_.end(), sums_.begin(), sums_.end());
    for (const char used : used_) all_ranks_.push_back(used == 0 ? 0.0 : has_weight ? 1.0 : without_weight);
    const Buffer all{all_ranks_.data(), {static_cast<std::int64_t>(all_ranks_.size())}, DType::float64};
    return communicator.all_reduce(all, all, ReduceOp::sum, Queue::host(), "weights and used parameters");
  }
  /// Returns the sums over all ranks and resets the tally. @pre the all-reduce has ended. @param sums  overwritten
  DataParallel::Step take(std::span<double> sums) {
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
  /// Resets this rank's sums.
  void begin_anew() {
    weight_ = 0;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(used_.begin(), used_.end(), char{0});
  }
  /// Returns how many gradients are not finite, over all ranks. @pre the all-reduce has ended
  [[nodiscard]] double not_finite() const { return all_ranks_[2]; }
  /// Returns whether some ranks with a weight made a parameter ready, and others did not, or only ranks without a
  /// weight did. @pre the all-reduce has ended
  [[nodiscard]] bool is_uneven() const {
    const double ranks = all_ranks_[1];
    const std::span<const double> used = used_by_all();
    return ranks > 0 && std::any_of(used.begin(), used.end(),
                                    [&](double by) { return by > 0 && std::fmod(by, without_weight) < ranks; });
  }
  /// Returns which parameters this rank left out although it had a weight, in the step that was taken last, as flags.
  [[nodiscard]] const std::vector<std::uint8_t>& missing() const { return missing_; }
  /// Returns the sums of the digests that were sent last. @pre the all-reduce has ended
  [[nodiscard]] std::span<const double> digest() const {
    return std::span(all_ranks_).subspan(3, std::tuple_size_v<ValueCheck::Digest>);
  }

 private:
  /// What a rank without a weight adds to the count of the ranks that made a parameter ready. It lies above all counts
  /// of ranks with a weight, and sums of both are exact in float64.
  static constexpr double without_weight = 1 << 24;

  [[nodiscard]] std::span<const double> used_by_all() const { return std::span(all_ranks_).last(used_.size()); }

  double weight_ = 0;
  std::vector<double> sums_;
  std::vector<char> used_;             // by parameter
  std::vector<std::uint8_t> missing_;  // by parameter
  std::vector<double> all_ranks_;      // weight, ranks with a weight, not finite, digest, sums, used
};

}  // namespace lockstep::ddp
