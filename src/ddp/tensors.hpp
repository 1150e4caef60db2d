// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Where values and gradients lie. Values are in a flat allocation of one layout, or are the program's own. Gradients
/// are always in a flat allocation when they are reduced; those that the program has elsewhere are copied there and
/// back.
class Tensors {
 public:
  /// @param places  how many gradients of the layout there is memory for
  Tensors(Layout layout, DType dtype, const ProcessGroup& group, int places);
  /// @throws Error{invalid_argument} that names the parameter whose buffers do not fit each other
  Tensors(std::vector<Parameter> parameters, const ProcessGroup& group);

  /// Moves into another group's memory; values are kept, gradients in the flat allocation are not.
  void move_to(const ProcessGroup& group);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] bool are_the_programs() const { return !program_values_.empty(); }
  [[nodiscard]] Buffer value(int index) const;
  /// Where the program has it.
  [[nodiscard]] Buffer gradient(int index) const;
  /// From now on the program has the gradient there.
  /// @throws Error{invalid_argument} that names the parameter if the buffer is null or of another count or dtype
  void move_gradient(int index, const Buffer& gradient);
  [[nodiscard]] bool is_in_flat_memory(int index, const Buffer& gradient) const {
    return gradient.data == part(gradients_, index).data;
  }
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

  /// Copies a gradient that is complete into the flat ones.
  void collect(int index, Queue queue) const;
  /// @param sums  in how many places
  void collect_zeros(int index, int sums, Queue queue) const;
  /// Copies gradients that the program has elsewhere out of the flat ones.
  void distribute(Queue queue = Queue::host()) const;

 private:
  [[nodiscard]] Buffer flat(const Allocation& memory) const;
  [[nodiscard]] Buffer part(const Allocation& memory, int index) const;

  Layout layout_;
  DType dtype_;
  std::vector<Buffer> program_values_;     // of each parameter; none where values are in `values_`
  std::vector<Buffer> program_gradients_;  // of each parameter; null where it is in `gradients_`
  int places_ = 1;
  Allocation values_;
  Allocation gradients_;
};

}  // namespace lockstep::ddp
