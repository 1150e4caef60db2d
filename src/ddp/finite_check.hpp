// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/ddp/data_parallel.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ddp {

/// Looks for infinite and NaN elements in memory of a GPU, and marks the parameters that have some.
class GpuFiniteCheck {
 public:
  GpuFiniteCheck(std::size_t parameters, int gpu);

  /// Queues the check of a parameter's values: on their stream, before whatever overwrites them there. Values of the
  /// host queue, which anybody may overwrite, are checked when this returns.
  void look(std::size_t parameter, const ConstBuffer& values, Queue queue);
  /// Queues the check of values that nobody overwrites before `take`.
  void look_at_constant(std::size_t parameter, const ConstBuffer& values);
  /// Waits for all checks, marks what they have found, and begins anew. @param flawed  by parameter; other marks stay
  void take(std::vector<std::uint8_t>& flawed);

 private:
  void queue_check(std::size_t parameter, const ConstBuffer& values, Queue queue);

  int gpu_;
  Allocation marks_;  // a number for each parameter, on the GPU
  Allocation found_;  // its copy on the host
  Stream stream_;     // comes after all checks
  Event checked_;
};

/// Finds gradients with infinite or NaN elements, in each step anew.
class FiniteCheck {
 public:
  /// @param gpu  the GPU in whose memory the gradients are; none if they are in host memory
  explicit FiniteCheck(std::size_t parameters, std::optional<int> gpu = std::nullopt);

  /// Marks a gradient of this rank as not finite.
  void mark(std::size_t parameter) { flawed_[parameter] = 1; }
  /// Checks a gradient of this rank, which is complete on the queue, before it is reduced.
  void look(int parameter, const ConstBuffer& gradient, Queue queue);
  /// Returns how many of this rank's gradients are not finite. On a GPU it waits for the checks.
  [[nodiscard]] double found();

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
  std::optional<GpuFiniteCheck> on_gpu_;
};

}  // namespace lockstep::ddp
