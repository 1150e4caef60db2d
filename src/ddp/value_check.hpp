// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>

#include "ddp/tensors.hpp"

namespace lockstep::ddp {

/// Compares the ranks' values, which identical updates keep equal: all of them in the second step with a group and in
/// every n-th step, and a few elements of each tensor in all others. It first compares one hash of all values, which is
/// sent with the tally, and only if that differs one hash per tensor.
class ValueCheck {
 public:
  /// Numbers whose sums over the ranks show whether all ranks have the same hash.
  using Digest = std::array<double, 8>;

  /// @param every  0: never
  ValueCheck(std::int64_t every, std::size_t tensors) : every_(every), hashes_(tensors) {}

  /// Restarts the count of steps, for another group.
  void begin_anew() { steps_ = 0; }
  /// Counts a step, and hashes its values or elements of them. @param progress  is called now and then
  void look(const Tensors& tensors, const std::function<void()>& progress);
  /// Returns the digest of this rank's hashes. It is zero if values are never compared.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// @param sums  the sums of the digests over all ranks
  /// @param step  its number, for the error
  /// @throws Error{mismatch} on every rank, naming the first tensor that differs, the ranks and the step, if the values
  ///         differ. The call is collective in that case.
  void require_equal(ProcessGroup& group, const Layout& layout, std::span<const double> sums, std::int64_t step);

 private:
  std::int64_t every_;
  std::int64_t steps_ = 0;  // with this group
  std::vector<std::uint64_t> hashes_;
  Digest digest_{};
};

/// Overwrites all ranks' values with rank 0's, or compares them. Collective.
/// @throws as DataParallel::synchronize
void synchronize(ProcessGroup& group, const std::vector<Buffer>& values, InitialValues how);

}  // namespace lockstep::ddp
