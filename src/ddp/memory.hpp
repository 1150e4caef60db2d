// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"

/// Buffers in any memory. Where one is a GPU's and a stream is given, the host does not wait: the stream does it after
/// what it holds. Without a stream the host waits, but for no stream of the program's.
namespace lockstep::ddp {

/// @pre as many bytes on both sides
void copy(const ConstBuffer& from, const Buffer& to, Queue queue = Queue::host());
void fill_with_zeros(const Buffer& buffer, Queue queue = Queue::host());
/// A fingerprint of the bytes, by which ranks compare them. @cost  one pass; of a GPU's memory also a copy to the host
std::uint64_t fingerprint(const ConstBuffer& buffer);

}  // namespace lockstep::ddp
