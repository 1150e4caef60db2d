// SPDX-License-Identifier: Apache-2.0
#include "ddp/memory.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/hash.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ddp {

namespace {

/// Runs the action on the stream of the queue. For the host queue it makes a stream and waits for it.
template <typename Action>
void on_gpu(Queue queue, const Action& action) {
  if (!queue.is_host()) return action(queue);
  Stream stream;
  action(stream.queue());
  stream.synchronize();
}

}  // namespace

void copy(const ConstBuffer& from, const Buffer& to, Queue queue) {
  if (from.bytes().value == 0) return;
  if (from.kind != MemoryKind::device && to.kind != MemoryKind::device) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes().value));
  } else {
    on_gpu(queue, [&](Queue stream) { copy_bytes(to.data, from.data, from.bytes(), stream); });
  }
}

void fill_with_zeros(const Buffer& buffer, Queue queue) {
  if (buffer.bytes().value == 0) return;
  if (buffer.kind == MemoryKind::device) {
    on_gpu(queue, [&](Queue stream) { clear_bytes(buffer.data, buffer.bytes(), stream); });
  } else {
    std::memset(buffer.data, 0, static_cast<std::size_t>(buffer.bytes().value));
  }
}

std::uint64_t fingerprint(const ConstBuffer& buffer) {
  Allocation copied;
  const void* data = buffer.data;
  if (buffer.kind == MemoryKind::device) {
    copied = allocate_host(buffer.bytes());
    copy(buffer, copied.as(buffer.dtype));
    data = copied.data();
  }
  return hash_of({static_cast<const std::byte*>(data), static_cast<std::size_t>(buffer.bytes().value)});
}

}  // namespace lockstep::ddp
