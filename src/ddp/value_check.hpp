// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ddp/tensors.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep::ddp {

/// Compares the ranks' values, which the same updates keep equal, in the second step with a group and in every n-th: by
/// one hash of them all, which goes along with the tally, and only where that differs by one of each tensor.
class ValueCheck {
 public:
  /// Numbers whose sums over ranks tell whether all ranks brought the same hash.
  using Digest = std::array<double, 8>;

  /// @param every  0: never
  ValueCheck(std::int64_t every, std::size_t tensors) : every_(every), hashes_(tensors) {}

  /// With another group.
  void begin_anew() { steps_ = 0; }
  /// One step more. @return whether the values are compared in it, which is the same on all ranks
  bool is_due();
  /// Hashes the values of a step in which they are compared. @param progress  called after each tensor
  void look(const Tensors& tensors, const std::function<void()>& progress);
  /// The digest of this rank's hashes. It is zero in a step in which values are not compared.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// @param sums  of the digests over all ranks; @param step  its number
  /// @throws Error{mismatch} on every rank, naming the first tensor that differs, the ranks and the step, if the values
  ///         do. Collective then
  void require_equal(ProcessGroup& group, const Layout& layout, std::span<const double> sums, std::int64_t step);

 private:
  std::int64_t every_;
  std::int64_t steps_ = 0;  // with this group
  std::vector<std::uint64_t> hashes_;
  Digest digest_{};
};

}  // namespace lockstep::ddp
