// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

// Operations on buffers in any memory. With a buffer on a GPU and a stream as the queue, the stream executes the
// operation in order and the host does not wait. Without a stream the host waits for the operation, which is not
// ordered after any stream of the program.

/// @pre both buffers have the same size in bytes
void copy(const ConstBuffer& from, const Buffer& to, Queue queue = Queue::host());
void fill_with_zeros(const Buffer& buffer, Queue queue = Queue::host());
/// Returns a fingerprint of the bytes, which ranks compare. @cost  one pass; for GPU memory also a copy to the host
std::uint64_t fingerprint(const ConstBuffer& buffer);

/// The memory of values and gradients. Values are in a flat allocation of one layout or belong to the program.
/// Gradients are always reduced in a flat allocation; gradients that the program keeps elsewhere are copied there and
/// back.
class Tensors {
 public:
  /// @param places  number of gradient buffers of the layout to allocate
  Tensors(Layout layout, DType dtype, const ProcessGroup& group, int places);
  /// @throws Error{invalid_argument} that names the parameter whose buffers do not fit each other
  Tensors(std::vector<Parameter> parameters, const ProcessGroup& group);

  /// Moves into another group's memory. Values are kept; gradients in the flat allocation are lost.
  void move_to(const ProcessGroup& group);
  /// Never frees the memory of the gradients, to which messages of a failed operation may still be written.
  void keep_gradients_forever();
  /// Sets the number of gradient buffers. Gradients are lost. @pre the program has no gradients of its own
  void set_places(int places, const ProcessGroup& group);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] bool are_the_programs() const { return !program_values_.empty(); }
  [[nodiscard]] Buffer value(int index) const;
  /// Returns the gradient where the program has it.
  [[nodiscard]] Buffer gradient(int index) const;
  /// Records that the program has the gradient in this buffer from now on.
  /// @throws Error{invalid_argument} that names the parameter if the buffer is null or of another count or dtype
  void move_gradient(int index, const Buffer& gradient);
  [[nodiscard]] bool is_in_flat_memory(int index, const Buffer& gradient) const {
    return gradient.data == part(gradients_, index).data;
  }
  /// @throws Error{invalid_argument} for the program's tensors
  [[nodiscard]] Buffer values() const;
  /// Returns the buffer that is all-reduced.
  [[nodiscard]] Buffer flat_gradients() const { return flat(gradients_); }
  /// Returns a tensor's gradient in one of the gradient buffers, from which it is sent.
  [[nodiscard]] Buffer own_gradient(int index, int place) const;
  [[nodiscard]] Buffer gradient_places() const {
    return {gradients_.data(), {places_ * layout_.count().value}, dtype_, gradients_.kind()};
  }
  /// Returns all values: one flat buffer, or the program's buffers.
  [[nodiscard]] std::vector<Buffer> value_buffers() const;

  /// Copies a complete gradient into the flat allocation.
  void collect(int index, Queue queue) const;
  /// @param sums  number of gradient buffers to fill with zeros
  void collect_zeros(int index, int sums, Queue queue) const;
  /// Copies gradients that the program keeps elsewhere back from the flat allocation.
  void distribute(Queue queue = Queue::host()) const;

 private:
  [[nodiscard]] Buffer flat(const Allocation& memory) const;
  [[nodiscard]] Buffer part(const Allocation& memory, int index) const;

  Layout layout_;
  DType dtype_;
  std::vector<Buffer> program_values_;     // by parameter; empty if values are in `values_`
  std::vector<Buffer> program_gradients_;  // by parameter; null if it is in `gradients_`
  int places_ = 1;
  Allocation values_;
  Allocation gradients_;
};

}  // namespace lockstep::ddp
