// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Where values and gradients lie: in two flat allocations of one layout, or, as the program's own, anywhere, with one
/// flat allocation that the gradients pass through.
class Tensors {
 public:
  /// @param places  how many gradients of the layout there is memory for
  Tensors(Layout layout, DType dtype, const ProcessGroup& group, int places);
  /// @throws Error{invalid_argument} that names the parameter whose buffers do not fit each other
  Tensors(std::vector<Parameter> parameters, const ProcessGroup& group);

  /// Moves into another group's memory; values are kept, gradients are not.
  void move_to(const ProcessGroup& group);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] bool are_the_programs() const { return !parameters_.empty(); }
  [[nodiscard]] Buffer value(int index) const;
  [[nodiscard]] Buffer gradient(int index) const;
  /// @throws Error{invalid_argument} for the program's tensors
  [[nodiscard]] Buffer values() const;
  /// What is all-reduced.
  [[nodiscard]] Buffer flat_gradients() const { return flat(gradients_); }
  /// Of one place.
  [[nodiscard]] Buffer gradient(int index, int place) const;
  [[nodiscard]] Buffer gradient_places() const {
    return {gradients_.data(), {places_ * layout_.count().value}, dtype_, gradients_.kind()};
  }
  /// All values: one buffer, or the program's.
  [[nodiscard]] std::vector<Buffer> value_buffers() const;

  /// The gradient is complete: into the flat ones with it.
  void collect(int index, Queue queue) const;
  /// @param sums  in how many places
  void collect_zeros(int index, int sums, Queue queue) const;
  /// The flat gradients are complete: out of them with all.
  void distribute(Queue queue = Queue::host()) const;

 private:
  [[nodiscard]] Buffer flat(const Allocation& memory) const;
  [[nodiscard]] Buffer part(const Allocation& memory, int index) const;

  Layout layout_;
  DType dtype_;
  std::vector<Parameter> parameters_;  // the program's; none where the memory is its own
  int places_ = 1;
  Allocation values_;
  Allocation gradients_;
};

}  // namespace lockstep::ddp
