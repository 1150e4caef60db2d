// SPDX-License-Identifier: Apache-2.0
// Messages, and the collectives that NCCL implements with messages, for which it selects no algorithm.
#include "emulated_gpu/nccl/builder.hpp"

using emulated_gpu::Builder;

extern "C" {

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  Builder call("ncclAlltoAll", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  if (call.is_good()) {
    const std::size_t all = bytes * static_cast<std::size_t>(call.ranks());
    call.check_pointer(in, all, "sendbuff");
    call.check_pointer(out, all, "recvbuff");
    call.check_overlap(in, all, out, all, false);
  }
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  for (int peer = 0; peer < call.ranks(); ++peer) {
    call.send(peer, emulated_gpu::offset(in, bytes * static_cast<std::size_t>(peer)), bytes);
    call.receive(peer, emulated_gpu::offset(out, bytes * static_cast<std::size_t>(peer)), bytes);
  }
  return call.launch(false, stream);
}

ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  Builder call("ncclGather", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_root(root);
  call.check_pointer(in, bytes, "sendbuff");
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  const bool is_in_place = in == emulated_gpu::offset(out, bytes * static_cast<std::size_t>(root));
  if (call.rank() == root) {
    const std::size_t all = bytes * static_cast<std::size_t>(call.ranks());
    call.check_pointer(out, all, "recvbuff");
    call.check_overlap(in, bytes, out, all, is_in_place);
  }
  if (call.rank() != root || !is_in_place) call.send(root, in, bytes);
  for (int peer = 0; call.rank() == root && peer < call.ranks(); ++peer)
    if (peer != root || !is_in_place)
      call.receive(peer, emulated_gpu::offset(out, bytes * static_cast<std::size_t>(peer)), bytes);
  return call.launch(false, stream);
}

ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  Builder call("ncclScatter", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_root(root);
  call.check_pointer(out, bytes, "recvbuff");
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  const bool is_in_place = out == emulated_gpu::offset(in, bytes * static_cast<std::size_t>(root));
  if (call.rank() == root) {
    const std::size_t all = bytes * static_cast<std::size_t>(call.ranks());
    call.check_pointer(in, all, "sendbuff");
    call.check_overlap(in, all, out, bytes, is_in_place);
  }
  for (int peer = 0; call.rank() == root && peer < call.ranks(); ++peer)
    if (peer != root || !is_in_place)
      call.send(peer, emulated_gpu::offset(in, bytes * static_cast<std::size_t>(peer)), bytes);
  if (call.rank() != root || !is_in_place) call.receive(root, out, bytes);
  return call.launch(false, stream);
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Builder call("ncclSend", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_root(peer);
  call.check_pointer(in, bytes, "sendbuff");
  if (call.is_good()) call.send(peer, in, bytes);
  return call.launch(true, stream);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclRecv", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_root(peer);
  call.check_pointer(out, bytes, "recvbuff");
  if (call.is_good()) call.receive(peer, out, bytes);
  return call.launch(true, stream);
}

}  // extern "C"
