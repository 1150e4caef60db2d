// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "ddp/value_check.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// What the ranks add up beside the gradients: weights, gradients that are not finite, the digest of values, the
/// program's numbers, and who has made which parameter ready.
class Tally {
 public:
  explicit Tally(std::size_t parameters) : used_(parameters, 0) {}

  void use(int parameter) { used_[static_cast<std::size_t>(parameter)] = 1; }
  [[nodiscard]] bool is_used(int parameter) const { return used_[static_cast<std::size_t>(parameter)] != 0; }
  void add(double weight, std::span<const double> sums);
  /// The sums of this rank, so far.
  [[nodiscard]] double weight() const { return weight_; }

  /// Sends what has added up. @param not_finite  how many of this rank's gradients are not
  Work send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest);
  /// The sums of all ranks; it begins anew. @pre what was sent has come. @param sums  overwritten
  DataParallel::Step take(std::span<double> sums);
  /// Drops what has added up.
  void begin_anew();
  /// How many gradients are not finite, over all ranks. @pre what was sent has come
  [[nodiscard]] double not_finite() const { return all_ranks_[1]; }
  /// The sums of the digests that were sent last. @pre they have come
  [[nodiscard]] std::span<const double> digest() const {
    return std::span(all_ranks_).subspan(2, std::tuple_size_v<ValueCheck::Digest>);
  }

 private:
  double weight_ = 0;
  std::vector<double> sums_;
  std::vector<char> used_;         // by parameter
  std::vector<double> all_ranks_;  // weight, not finite, digest, sums, used
};

}  // namespace lockstep::ddp
