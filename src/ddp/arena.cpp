// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/arena.hpp"

#include <utility>

namespace lockstep::ddp {
namespace {

Bytes bytes_of(const Layout& layout, DType dtype) { return {layout.count().value * size_of(dtype)}; }

}  // namespace

Arena::Arena(Layout layout, DType dtype, Communicator& communicator)
    : layout_(std::move(layout)),
      dtype_(dtype),
      parameters_(communicator.allocate(bytes_of(layout_, dtype))),
      gradients_(communicator.allocate(bytes_of(layout_, dtype))),
      optimizer_state_(communicator.allocate(bytes_of(layout_, dtype))) {}

Buffer Arena::tensor(const Buffer& whole, int index) const {
  const TensorSlot& slot = layout_.at(index);
  return slice(whole, slot.offset, slot.count);
}

Buffer Arena::view(const Allocation& memory) const { return {memory.data(), layout_.count(), dtype_, memory.kind()}; }

}  // namespace lockstep::ddp
