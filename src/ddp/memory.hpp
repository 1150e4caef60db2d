// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"

/// Operations on buffers in any memory. With a buffer on a GPU and a stream as the queue, the stream executes the
/// operation in order and the host does not wait. Without a stream the host waits for the operation, which is not
/// ordered after any stream of the program.
namespace lockstep::ddp {

/// @pre both buffers have the same size in bytes
void copy(const ConstBuffer& from, const Buffer& to, Queue queue = Queue::host());
void fill_with_zeros(const Buffer& buffer, Queue queue = Queue::host());
/// Returns a fingerprint of the bytes, which ranks compare. @cost  one pass; for GPU memory also a copy to the host
std::uint64_t fingerprint(const ConstBuffer& buffer);

}  // namespace lockstep::ddp
