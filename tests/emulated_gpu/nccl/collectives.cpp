// SPDX-License-Identifier: Apache-2.0
// The collectives for which NCCL has algorithms: what each rank sends, receives and reduces.
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/nccl/builder.hpp"
#include "emulated_gpu/nccl/reduction.hpp"

namespace emulated_gpu {
namespace {

bool is_eight_bit_float(ncclDataType_t type) { return type == ncclFloat8e4m3 || type == ncclFloat8e5m2; }

/// Returns the reduction after checking the operator; nothing if the call is refused.
std::optional<Reduction> reduction_for(Builder& call, ncclRedOp_t op, ncclDataType_t type) {
  call.sign(static_cast<std::uint64_t>(std::min(op, ncclNumOps)));  // handles of custom operators differ between ranks
  if (!call.is_good()) return std::nullopt;
  if (is_eight_bit_float(type)) violation(call.exchange().name + " of 8-bit floating-point values is not emulated");
  const auto reduction = find_reduction(op, type, call.communicator());
  if (!reduction) {
    call.refuse_it(call.exchange().name + ": no such operator of this communicator and type");
  } else if (reduction->has_factor) {
    call.exchange().scaling = {type, *reduction};
    return Reduction{.op = reduction->op};
  }
  return reduction;
}

/// What a call may say of itself from NCCL 2.31.2 on.
/// @source NCCL 2.32.3, nccl.h, ncclCollConfig_t, without the fields that 2.32 adds
struct CallConfiguration {
  std::size_t size = sizeof(CallConfiguration);
  unsigned magic = 0xcafebeef;
  unsigned version = 0;
  void* extensions = nullptr;
  int blocks[4] = {};
  const char* selection = nullptr;
  int is_forced = 1;
  int policy = 0;
  std::uint64_t tag = 0;

  /// The order of the sum if the selection leaves one algorithm.
  [[nodiscard]] std::optional<SumOrder> order() const {
    if (selection == nullptr) return std::nullopt;
    const std::string_view names(selection);
    const bool has_ring = names.find("RING_SIMPLE") != std::string_view::npos;
    const bool has_tree = names.find("TREE_SIMPLE") != std::string_view::npos;
    if (has_ring == has_tree) return std::nullopt;
    return has_ring ? SumOrder::ring : SumOrder::tree;
  }
};

ncclResult_t all_reduce(Builder& call, const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, cudaStream_t stream, std::optional<SumOrder> order) {
  const std::size_t bytes = count * size_of(type);
  call.check_pointer(in, bytes, "sendbuff");
  call.check_pointer(out, bytes, "recvbuff");
  call.check_overlap(in, bytes, out, bytes, in == out);
  call.sign(count);
  call.sign(order ? 1 + static_cast<std::uint64_t>(*order) : 0);
  const auto reduction = reduction_for(call, op, type);
  if (!reduction) return call.launch(false, stream);
  for (int peer = 0; peer < call.ranks(); ++peer)
    if (peer != call.rank()) call.send(peer, in, bytes);
  call.exchange().sum = {in, out, count, type, *reduction, order.value_or(call.communicator().order_of_sum(bytes))};
  return call.launch(false, stream);
}

}  // namespace
}  // namespace emulated_gpu

using emulated_gpu::Builder;

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclAllReduce", comm, type);
  return emulated_gpu::all_reduce(call, in, out, count, type, op, stream, std::nullopt);
}

/// @param given  of the layout of version 2.31.2, which the installed header need not have
ncclResult_t ncclAllReduceConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const void* given) {
  Builder call("ncclAllReduceConfig", comm, type);
  emulated_gpu::CallConfiguration config;
  if (given != nullptr) std::memcpy(&config, given, sizeof config);
  if (config.size < sizeof config || config.magic != emulated_gpu::CallConfiguration().magic)
    call.refuse_it("ncclAllReduceConfig: a configuration without its size or mark");
  const auto order = config.order();
  if (config.selection != nullptr && !order) call.refuse_it("ncclAllReduceConfig: no such algorithm");
  return emulated_gpu::all_reduce(call, in, out, count, type, op, stream, order);
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclReduce", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_pointer(in, bytes, "sendbuff");
  call.check_root(root);
  call.check_algorithm("reduce");
  call.sign(count);
  if (call.is_good() && call.rank() == root) {
    call.check_pointer(out, bytes, "recvbuff");
    call.check_overlap(in, bytes, out, bytes, in == out);
  }
  const auto reduction = emulated_gpu::reduction_for(call, op, type);
  if (!reduction) return call.launch(false, stream);
  if (call.rank() == root) {
    call.exchange().sum = {in, out, count, type, *reduction, emulated_gpu::SumOrder::ring};
  } else {
    call.send(root, in, bytes);
  }
  return call.launch(false, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclReduceScatter", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_pointer(out, bytes, "recvbuff");
  if (call.is_good()) {
    const std::size_t all = bytes * static_cast<std::size_t>(call.ranks());
    call.check_pointer(in, all, "sendbuff");
    call.check_overlap(in, all, out, bytes,
                       out == emulated_gpu::offset(in, bytes * static_cast<std::size_t>(call.rank())));
  }
  call.check_algorithm("reducescatter");
  call.sign(count);
  const auto reduction = emulated_gpu::reduction_for(call, op, type);
  if (!reduction) return call.launch(false, stream);
  for (int peer = 0; peer < call.ranks(); ++peer)
    if (peer != call.rank()) call.send(peer, emulated_gpu::offset(in, bytes * static_cast<std::size_t>(peer)), bytes);
  call.exchange().sum = {emulated_gpu::offset(in, bytes * static_cast<std::size_t>(call.rank())),
                         out,
                         count,
                         type,
                         *reduction,
                         emulated_gpu::SumOrder::ring};
  return call.launch(false, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  Builder call("ncclBroadcast", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_root(root);
  call.check_pointer(out, bytes, "recvbuff");
  call.check_algorithm("broadcast");
  call.sign(count);
  if (call.is_good() && call.rank() == root) {
    call.check_pointer(in, bytes, "sendbuff");
    call.check_overlap(in, bytes, out, bytes, in == out);
  }
  if (!call.is_good()) return call.launch(false, stream);
  for (int peer = 0; call.rank() == root && peer < call.ranks(); ++peer)
    if (peer != root || in != out) call.send(peer, in, bytes);
  if (call.rank() != root || in != out) call.receive(root, out, bytes);
  return call.launch(false, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  Builder call("ncclAllGather", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_pointer(in, bytes, "sendbuff");
  if (call.is_good()) {
    const std::size_t all = bytes * static_cast<std::size_t>(call.ranks());
    call.check_pointer(out, all, "recvbuff");
    call.check_overlap(in, bytes, out, all,
                       in == emulated_gpu::offset(out, bytes * static_cast<std::size_t>(call.rank())));
  }
  call.check_algorithm("allgather");
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  for (int peer = 0; peer < call.ranks(); ++peer) {
    void* place = emulated_gpu::offset(out, bytes * static_cast<std::size_t>(peer));
    if (peer == call.rank() && place == in) continue;
    call.send(peer, in, bytes);
    call.receive(peer, place, bytes);
  }
  return call.launch(false, stream);
}

}  // extern "C"
