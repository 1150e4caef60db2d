// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/layout.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Finds gradients with infinite or NaN elements, in each step anew.
class FiniteCheck {
 public:
  explicit FiniteCheck(std::size_t parameters) : flawed_(parameters, 0) {}

  /// Marks a gradient of this rank as not finite.
  void mark(std::size_t parameter) {
    flawed_[parameter] = 1;
    found_ += 1;
  }
  /// Checks a gradient of this rank before it is reduced.
  void look(int parameter, const ConstBuffer& gradient);
  /// Returns how many of this rank's gradients are not finite.
  [[nodiscard]] double found() const { return found_; }

  /// Returns the gradients that are not finite, by rank, and resets the check. Collective if `found_by_all` is
  /// positive.
  /// @param found_by_all  the sum of `found()` over all ranks
  std::vector<DataParallel::NotFinite> gather(ProcessGroup& group, double found_by_all);
  /// Returns the reduced gradients that are not finite, and resets the check.
  /// @param parts         the parts of the sums that this rank has
  /// @param communicator  of ranks that have other parts, with whom the call is collective; null: each has all
  std::vector<DataParallel::NotFinite> look_at_sums(const Layout& layout, const Buffer& sums,
                                                    std::span<const LayoutPart> parts, Communicator* communicator);

 private:
  std::vector<std::uint8_t> flawed_;  // by parameter; all zero between steps
  double found_ = 0;
};

}  // namespace lockstep::ddp
