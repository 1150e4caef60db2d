// SPDX-License-Identifier: Apache-2.0
// The operations: what each rank sends, receives and adds.
#include <functional>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"
#include "emulated_gpu/nccl/reduction.hpp"

namespace emulated_gpu {
namespace {

const void* offset(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }
void* offset(void* address, std::size_t bytes) { return static_cast<std::byte*>(address) + bytes; }

/// A call under check, and then under construction.
class Builder {
 public:
  Builder(const char* name, ncclComm_t handle, ncclDataType_t type) : handle_(handle) {
    exchange_.name = name;
    result_ = injected_nccl_error(name);
    if (result_ == ncclSuccess) result_ = check_usable(handle);
    if (result_ == ncclSuccess && size_of(type) == 0) refuse_it(std::string(name) + ": invalid type");
    sign(std::hash<std::string>()(name));
    sign(static_cast<std::uint64_t>(type));
  }
  [[nodiscard]] bool is_good() const { return result_ == ncclSuccess; }
  [[nodiscard]] Communicator& communicator() const { return *handle_->communicator; }
  [[nodiscard]] int rank() const { return communicator().rank; }
  [[nodiscard]] int ranks() const { return communicator().ranks; }
  Exchange& exchange() { return exchange_; }

  void sign(std::uint64_t value) { exchange_.signature = exchange_.signature * 1099511628211U + value + 1; }
  void check_root(int root) {
    if (is_good() && (root < 0 || root >= ranks()))
      refuse_it(exchange_.name + ": invalid root " + std::to_string(root));
    sign(static_cast<std::uint64_t>(root));
  }
  /// Memory of this communicator's GPU, as NCCL_CHECK_POINTERS has NCCL look for.
  void check_pointer(const void* address, std::size_t bytes, const char* which) {
    if (!is_good() || bytes == 0) return;
    const std::scoped_lock lock(device_lock());
    const Block* block = Memory::instance().find(address);
    if (block == nullptr || block->was_freed)
      return refuse_it(exchange_.name + ": " + which + " is not a valid pointer");
    if (block->type == MemoryType::device && block->gpu != communicator().device.number)
      refuse_it(exchange_.name + ": " + which + " is allocated on device " + std::to_string(block->gpu));
  }
  void check_algorithm() {
    if (is_good() && communicator().has_forced_tree)
      result_ = communicator().fail(ncclInvalidUsage, exchange_.name + ": no algorithm; NCCL_ALGO was set to tree");
  }

  /// Rank `peer` gets it; where that is this one, it is copied if the places differ.
  void send(int peer, const void* from, std::size_t bytes) { exchange_.out.push_back({peer, from, bytes}); }
  void receive(int peer, void* to, std::size_t bytes) { exchange_.in.push_back({peer, to, bytes}); }

  ncclResult_t launch(bool is_message, cudaStream_t stream) {
    return is_good() ? add_to_group(handle_, std::move(exchange_), is_message, stream) : refuse_in_group(result_);
  }

 private:
  void refuse_it(const std::string& why) { result_ = communicator().fail(ncclInvalidArgument, why); }

  ncclComm_t handle_;
  Exchange exchange_;
  ncclResult_t result_ = ncclSuccess;
};

/// With the operator checked.
std::optional<Reduction> reduction_for(Builder& call, ncclRedOp_t op) {
  call.sign(static_cast<std::uint64_t>(op));
  return call.is_good() ? find_reduction(op) : std::nullopt;
}

}  // namespace
}  // namespace emulated_gpu

using emulated_gpu::Builder;

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclAllReduce", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_pointer(in, bytes, "sendbuff");
  call.check_pointer(out, bytes, "recvbuff");
  call.sign(count);
  const auto reduction = emulated_gpu::reduction_for(call, op);
  if (!reduction)
    return emulated_gpu::refuse_in_group(call.is_good() ? ncclInvalidArgument : call.launch(false, stream));
  for (int peer = 0; peer < call.ranks(); ++peer)
    if (peer != call.rank()) call.send(peer, in, bytes);
  call.exchange().sum = {in, out, count, type, *reduction, call.communicator().order_of_sum(bytes)};
  return call.launch(false, stream);
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Builder call("ncclReduce", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  call.check_pointer(in, bytes, "sendbuff");
  call.check_root(root);
  call.check_algorithm();
  call.sign(count);
  if (call.is_good() && call.rank() == root) call.check_pointer(out, bytes, "recvbuff");
  const auto reduction = emulated_gpu::reduction_for(call, op);
  if (!reduction)
    return emulated_gpu::refuse_in_group(call.is_good() ? ncclInvalidArgument : call.launch(false, stream));
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
  if (call.is_good()) call.check_pointer(in, bytes * static_cast<std::size_t>(call.ranks()), "sendbuff");
  call.check_pointer(out, bytes, "recvbuff");
  call.check_algorithm();
  call.sign(count);
  const auto reduction = emulated_gpu::reduction_for(call, op);
  if (!reduction)
    return emulated_gpu::refuse_in_group(call.is_good() ? ncclInvalidArgument : call.launch(false, stream));
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
  call.check_algorithm();
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  if (call.rank() == root) call.check_pointer(in, bytes, "sendbuff");
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
  if (call.is_good()) call.check_pointer(out, bytes * static_cast<std::size_t>(call.ranks()), "recvbuff");
  call.check_algorithm();
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

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  Builder call("ncclAlltoAll", comm, type);
  const std::size_t bytes = count * emulated_gpu::size_of(type);
  if (call.is_good()) call.check_pointer(in, bytes * static_cast<std::size_t>(call.ranks()), "sendbuff");
  if (call.is_good()) call.check_pointer(out, bytes * static_cast<std::size_t>(call.ranks()), "recvbuff");
  call.check_algorithm();
  call.sign(count);
  if (!call.is_good()) return call.launch(false, stream);
  for (int peer = 0; peer < call.ranks(); ++peer) {
    call.send(peer, emulated_gpu::offset(in, bytes * static_cast<std::size_t>(peer)), bytes);
    call.receive(peer, emulated_gpu::offset(out, bytes * static_cast<std::size_t>(peer)), bytes);
  }
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
