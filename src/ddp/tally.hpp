// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  void add(double weight, std::span<const double> sums);
  /// Returns this rank's sum so far.
  [[nodiscard]] double weight() const { return weight_; }

  /// Starts the all-reduce of the sums. @param not_finite  how many gradients of this rank are not finite
  Work send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest);
  /// Returns the sums over all ranks and resets the tally. @pre the all-reduce has ended. @param sums  overwritten
  DataParallel::Step take(std::span<double> sums);
  /// Resets this rank's sums.
  void begin_anew();
  /// Returns how many gradients are not finite, over all ranks. @pre the all-reduce has ended
  [[nodiscard]] double not_finite() const { return all_ranks_[2]; }
  /// Returns whether some ranks with a weight made a parameter ready, and others did not, or only ranks without a
  /// weight did. @pre the all-reduce has ended
  [[nodiscard]] bool is_uneven() const;
  /// Returns which parameters this rank left out although it had a weight, in the step that was taken last, as flags.
  [[nodiscard]] const std::vector<std::uint8_t>& missing() const { return missing_; }
  /// Returns the sums of the digests that were sent last. @pre the all-reduce has ended
  [[nodiscard]] std::span<const double> digest() const {
    return std::span(all_ranks_).subspan(3, std::tuple_size_v<ValueCheck::Digest>);
  }

 private:
  [[nodiscard]] std::span<const double> used_by_all() const { return std::span(all_ranks_).last(used_.size()); }

  double weight_ = 0;
  std::vector<double> sums_;
  std::vector<char> used_;             // by parameter
  std::vector<std::uint8_t> missing_;  // by parameter
  std::vector<double> all_ranks_;      // weight, ranks with a weight, not finite, digest, sums, used
};

}  // namespace lockstep::ddp
