// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"
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
  void look(int parameter, const ConstBuffer& gradient) {
    if (!kernels::all_finite(gradient)) mark(static_cast<std::size_t>(parameter));
  }
  /// Returns how many of this rank's gradients are not finite.
  [[nodiscard]] double found() const { return found_; }

  /// Returns the gradients that are not finite, by rank, and resets the check. Collective if `found_by_all` is
  /// positive.
  /// @param found_by_all  the sum of `found()` over all ranks
  std::vector<DataParallel::NotFinite> gather(ProcessGroup& group, double found_by_all) {
    std::vector<DataParallel::NotFinite> all;
    if (found_by_all == 0) return all;
    for (MarkedParameters& of_rank : gather_marked(group, flawed_, "gradients that are not finite"))
      all.push_back(
          {.rank = of_rank.rank, .host = std::move(of_rank.host), .parameters = std::move(of_rank.parameters)});
    std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
    found_ = 0;
    return all;
  }
  /// Returns the reduced gradients that are not finite, and resets the check.
  /// @param parts         the parts of the sums that this rank has
  /// @param communicator  of ranks that have other parts, with whom the call is collective; null: each has all
  std::vector<DataParallel::NotFinite> look_at_sums(const Layout& layout, const Buffer& sums,
                                                    std::span<const LayoutPart> parts, Communicator* communicator) {
    for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
      const TensorSlot& slot = layout.tensors()[i];
      for (const LayoutPart& part : parts) {
        const LayoutPart here = common(part, {slot.offset, slot.count});
        if (here.count.value > 0 && !kernels::all_finite(slice(sums, here.offset, here.count))) flawed_[i] = 1;
      }
    }
    if (communicator != nullptr)
      communicator
          ->all_reduce(std::span(flawed_), std::span(flawed_), ReduceOp::max, Queue::host(), "found in own parts")
          .wait();
    std::vector<int> parameters = marked(flawed_);
    if (parameters.empty()) return {};
    std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
    return {{.rank = {}, .host = {}, .parameters = std::move(parameters)}};
  }

 private:
  std::vector<std::uint8_t> flawed_;  // by parameter; all zero between steps
  double found_ = 0;
};

}  // namespace lockstep::ddp
