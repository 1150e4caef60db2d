// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/layout.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Looks through gradients for what is infinite or not a number, in one step after the other.
class FiniteCheck {
 public:
  explicit FiniteCheck(std::size_t parameters) : flawed_(parameters, 0) {}

  /// This rank's gradient, before it leaves.
  void look(int parameter, const ConstBuffer& gradient);
  /// Of this rank's gradients, how many were found not to be finite.
  [[nodiscard]] double found() const { return found_; }

  /// Whose gradients are not finite; it begins anew. Collective where `found_by_all` is above 0.
  /// @param found_by_all  what `found()` is together on all ranks, at least one of which has looked
  std::vector<DataParallel::NotFinite> gather(const ProcessGroup& group, Communicator& communicator,
                                              double found_by_all);
  /// Looks at the sums of finite gradients, in these parts.
  void look_at_sums(const Layout& layout, const Buffer& sums, std::span<const LayoutPart> parts);
  /// Where each rank has looked at parts of its own: tells all what was found, and adds up the numbers. Collective.
  void exchange(Communicator& communicator, std::span<double> numbers);
  /// Which sums are not finite; it begins anew.
  std::vector<DataParallel::NotFinite> of_sums();

 private:
  std::vector<std::uint8_t> flawed_;  // by parameter; none between steps
  double found_ = 0;
  std::vector<double> exchanged_;
};

}  // namespace lockstep::ddp
